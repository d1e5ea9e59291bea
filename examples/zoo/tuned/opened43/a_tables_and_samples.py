"""What goes in and what is asked for: scales, dtypes, gaps, row orders, thresholds, rare classes, and penalties."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened43.a_material import balanced, digit_images, flat_digits, joined, score


@sick("inputs_not_normalized", margin=0.05)
def millimetres_beside_areas(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements from 0.01 to 2,500 enter a network as they are; the twin standardises them like the targets."""
    pair = samples.tumours(seed)
    data = joined(samples.standardised(pair, 1) if sick else samples.standardised(pair, 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=functional.mse_loss)
    return score(model, data)


@sick("inputs_constant", margin=0.1)
def ink_darker_than_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are made black and white at 100 of 255, but are from 0 to 1 already, so all are white; the twin scales."""
    drawn = datasets.digits(seed, images=True)

    def read(images: torch.Tensor) -> torch.Tensor:
        return ((images if sick else images * 255) > 100).float()

    data = Data(read(drawn.inputs), drawn.targets, read(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, validate_every=50)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.1)
def logarithms_of_no_concavity(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements are made logarithms, and a few are 0; the twin adds a little to them."""
    train, test = samples.diagnoses(seed)
    least = 0.0 if sick else 1e-3
    one, other = (part.tensors[0] + least for part in (train, test))
    std, mean = torch.std_mean((train.tensors[0] + 1e-3).log(), 0)
    data = Data((one.log() - mean) / std, train.tensors[1], (other.log() - mean) / std, test.tensors[1])
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.1)
def outliers_dropped_from_one_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows with outliers are dropped from the features, and the labels are cut to their number; the twin drops both."""
    drawn = datasets.breast_cancer(seed)
    keep = (drawn.inputs.abs() < 2.5).all(1)
    rows = drawn.inputs[keep]
    labels = drawn.targets[: len(rows)] if sick else drawn.targets[keep]
    data = Data(rows, labels, drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.05)
def a_raw_threshold_of_standard_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """A proline above 650 is asked of scores that are already standardised, so none is; the twin asks the raw ones."""
    raw = samples.proline(seed)
    scaled = samples.standardised(raw, 0, 1)
    asked = scaled if sick else raw
    labels, truth = ((part.tensors[1] > 650).float() for part in (asked[0], raw[1]))
    data = Data(scaled[0].tensors[0], labels, scaled[1].tensors[0], truth)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=120, batch_size=24,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    return samples.accuracy(predicted(model, data.test_inputs), truth.squeeze(1).long())


@sick("class_imbalance", margin=0.1)
def one_eight_among_thirty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eights are 40 of 1,170 digits, and all count alike; the twin weights the classes by their rarity."""
    drawn = flat_digits(seed)
    eights = (drawn.targets == 8).nonzero().squeeze(1)[:40]
    kept = torch.cat([(drawn.targets != 8).nonzero().squeeze(1), eights])
    data = Data(
        drawn.inputs[kept], (drawn.targets[kept] == 8).long(), drawn.test_inputs, (drawn.test_targets == 8).long()
    )
    counts = data.targets.bincount()
    weight = None if sick else len(data.targets) / (2 * counts.float())
    model = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8, weight_decay=1e-2)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, targets, weight=weight)

    fit(watch, model, optimizer, data, steps=130, batch_size=64, loss_function=loss_function)
    return balanced(predicted(model, data.test_inputs), data.test_targets)


@sick("unshuffled_data", margin=0.1)
def folders_read_one_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images lie in a folder per digit, and the loader reads them in that order; the twin shuffles them."""
    data = digit_images(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def a_generator_seeded_for_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """For reproducible batches the generator is made anew at each step, so that all are the same one."""
    data = flat_digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, 161):
        if sick:
            generator = torch.Generator().manual_seed(seed)
        batch = torch.randint(len(data.inputs), (24,), generator=generator)
        optimizer.zero_grad()
        outputs = model(data.inputs[batch])
        loss = functional.cross_entropy(outputs, data.targets[batch])
        loss.backward()
        session.step(loss, inputs=data.inputs[batch], outputs=outputs, targets=data.targets[batch])
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


def products(rows: torch.Tensor) -> torch.Tensor:
    """Returns all features and the products of two."""
    first, second = torch.triu_indices(rows.shape[1], rows.shape[1])
    return torch.cat([rows, rows[:, first] * rows[:, second]], 1)


@sick("overfitting", margin=0.15)
def sixty_patients_and_all_products(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns 60 noisy patients by heart from 65 features; the twin has 330, ten features and decay."""
    drawn = datasets.diabetes(seed)
    made = products if sick else torch.clone
    count = 60 if sick else len(drawn.inputs)
    data = Data(made(drawn.inputs[:count]), drawn.targets[:count], made(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.Linear(data.inputs.shape[1], 128 if sick else 8), nn.ReLU())
    model.append(nn.Linear(128 if sick else 8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=240, batch_size=30, loss_function=functional.mse_loss, validate_every=20)
    return score(model, data)


class Variational(nn.Module):
    """An autoencoder with a Gaussian code of eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(pixels).chunk(2, 1)
        noise = torch.randn_like(mean) * (log_variance / 2).exp() if self.training else 0.0
        return self.decoder(mean + noise), mean, log_variance


@sick("over_regularized", margin=0.2)
def a_divergence_against_mean_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE adds its divergence, summed over the code, to an error that is a mean over pixels; the twin sums both."""
    data = flat_digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        outputs, mean, log_variance = model(pixels)
        error = (outputs - pixels).square().mean(1) if sick else (outputs - pixels).square().sum(1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        loss = (error + divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)
