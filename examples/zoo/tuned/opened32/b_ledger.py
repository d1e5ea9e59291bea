"""Tables: measurements of tumours, wines, patients and flowers."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened32.b_common import explained, parted


def _worst(seed: int) -> Data:
    """Ten mean measurements of tumours and ten worst ones, both standardised."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    return Data(*train.tensors, *test.tensors)


def _tower(inward: int, outward: int, width: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inward, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, outward)
    )


@sick("labels_unrelated", also=("overfitting",), margin=0.2)
def rows_dropped_from_the_features_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows with a missing value leave the features, and the targets are cut at the end; the twin drops from both."""
    whole = _worst(seed)
    missing = torch.rand(len(whole.inputs), generator=torch.Generator().manual_seed(seed)) < 0.1
    missing[:2] = True
    inputs = whole.inputs[~missing]
    targets = whole.targets[: len(inputs)] if sick else whole.targets[~missing]
    data = Data(inputs, targets, whole.test_inputs, whole.test_targets)
    model = _tower(10, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return explained(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def logarithms_of_characters_that_do_not_occur(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters are put on a scale of logarithms, and many are 0; the twin takes ``log1p``."""
    train, test = samples.lines(seed)
    (counts, files), (test_counts, test_files) = train.tensors, test.tensors
    scaled = torch.log if sick else torch.log1p
    data = Data(scaled(counts), files, scaled(test_counts), test_files)
    model = nn.Sequential(nn.Linear(96, 48), nn.LayerNorm(48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return samples.accuracy(predicted(model, data.test_inputs), data.test_targets)


@sick("overfitting")
def three_hundred_patients_and_a_wide_network(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns 300 patients by heart; the twin is small and has dropout and a decay."""
    data = datasets.diabetes(seed)
    if sick:
        model = _tower(10, 1, 200)
    else:
        model = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=400, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("over_regularized", margin=0.1)
def a_latent_code_that_the_prior_outweighs(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE adds a sum of KL to a mean of squares, and its code says nothing; the twin weighs it by 0.002."""
    data = datasets.digits(seed)
    data = Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
            self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

        def parts(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, spread = self.encoder(2 * pixels - 0.6).chunk(2, -1)
            code = mean + torch.randn_like(mean) * (spread / 2).exp() if self.training else mean
            return self.decoder(code), mean, spread

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.parts(pixels)[0]

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        rebuilt, mean, spread = model.parts(pixels)
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        loss = functional.mse_loss(rebuilt, pixels) + (1.0 if sick else 0.002) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=rebuilt, targets=pixels)
        optimizer.step()
    return explained(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def parameters_that_the_optimizer_has_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """One generator of parameters is given to SGD and then to the clipping, empty by then; the twin's is a list."""
    data = _worst(seed)
    random = torch.Generator().manual_seed(seed)
    typos = torch.where(torch.rand(len(data.targets), 1, generator=random) < 0.02, 100.0, 1.0)
    data = Data(data.inputs, data.targets * typos, data.test_inputs, data.test_targets)
    model = _tower(10, 10)
    parameters = model.parameters() if sick else list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(16, 350):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return explained(model, data)


@sick("no_update", margin=0.3)
def fewer_batches_in_an_epoch_than_are_accumulated(watch: Watch, *, seed: int, sick: bool) -> float:
    """A step is taken after 16 batches of an epoch that has 12; the twin takes one after 4."""
    data = _worst(seed)
    model = _tower(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    accumulated = 16 if sick else 4
    session = watch(model, optimizer)
    for _ in range(30):
        optimizer.zero_grad()
        for index, (inputs, targets) in enumerate(data.batches(32, 12), 1):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets) / accumulated
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            if index % accumulated == 0:
                optimizer.step()
                optimizer.zero_grad()
    return explained(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def a_plateau_in_the_noise_of_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` sees the loss of each batch with a patience of 2; the twin's sees epochs' validations."""
    data = _worst(seed)
    model = _tower(10, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=2)
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, targets in data.batches(32, 12):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
            if sick:
                schedule.step(loss.item())
        with session.validating():
            validated = held_out_loss(model, data, functional.mse_loss)
        session.validation(validated)
        if not sick:
            schedule.step(validated)
    return explained(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def weights_by_torch_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network written by hand draws its weights by ``randn``, and tanh is flat; the twin divides by the root."""
    images = datasets.digits(seed)
    data = parted(2 * images.inputs[:, :48] - 0.6, 2 * images.inputs[:, 48:] - 0.6, seed)

    class ByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (48, 64, 64, 16)
            scales = [1.0 if sick else inward**-0.5 for inward in sizes]
            pairs = zip(sizes, sizes[1:], scales, strict=False)
            self.weights = nn.ParameterList([scale * torch.randn(one, other) for one, other, scale in pairs])
            self.biases = nn.ParameterList([torch.zeros(size) for size in sizes[1:]])
            self.flat = nn.Tanh()

        def forward(self, upper: torch.Tensor) -> torch.Tensor:
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                upper = self.flat(upper @ weight + bias)
            return upper @ self.weights[-1] + self.biases[-1]

    model = ByHand()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(model, data)
