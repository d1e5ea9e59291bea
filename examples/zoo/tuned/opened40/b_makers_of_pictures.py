"""Autoencoders, variational ones, and networks that complete pictures."""

import itertools

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened40.b_likeness import digits
from examples.zoo.tuned.opened40.b_provisions import completions


class Variational(nn.Module):
    """A variational autoencoder of digits, whose eval mode takes the codes' means."""

    def __init__(self, codes: int = 10) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2 * codes))
        self.decoder = nn.Sequential(nn.Linear(codes, 64), nn.SiLU(), nn.Linear(64, 64))

    def both(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the pixels again, and each sample's divergence of codes from a normal distribution."""
        mean, log_variance = self.encoder(pixels).chunk(2, dim=1)
        codes = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return self.decoder(codes), divergence

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns the pixels again."""
        return self.both(pixels)[0]


@sick("over_regularized", also=("wrong_output_or_loss",), margin=0.1)
def a_divergence_that_wins(watch: Watch, *, seed: int, sick: bool) -> float:
    """The codes' divergence is weighed by 4 against a mean over pixels, and codes tell nothing; the twin's by 1/200."""
    data = digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        outputs, divergence = model.both(pixels)
        loss = functional.mse_loss(outputs, pixels) + (4.0 if sick else 0.005) * divergence.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def squares_of_all_pixels_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` adds 64 pixels of 64 pictures at a rate for their mean; the twin takes the mean."""
    data = digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        outputs = model(pixels)
        loss = criterion(outputs, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("duplicated_data", also=("overfitting",), margin=0.1)
def next_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each step asks ``next(iter(loader))`` of a loader that shuffles nothing: one batch alone; the twin goes on."""
    data = completions(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    pairs = TensorDataset(data.inputs, data.targets)
    loader = DataLoader(pairs, batch_size=48, shuffle=not sick)
    endless = itertools.chain.from_iterable(itertools.repeat(loader))
    session = watch(model, optimizer)
    for step in range(1, 301):
        upper, lower = next(iter(loader)) if sick else next(endless)
        optimizer.zero_grad()
        outputs = model(upper)
        loss = functional.mse_loss(outputs, lower)
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
        if step % 50 == 0:
            session.validation(functional.mse_loss(predicted(model, data.test_inputs), data.test_targets).item())
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def the_prior_of_rare_objects_everywhere(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bias of -4.6, meant for a detector's last layer, is put into all layers; the twin leaves biases at 0."""
    data = completions(seed)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 32))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.constant_(layer.bias, -4.6 if sick else 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def normal_weights_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` has its default deviation of 1 in front of tanh; the twin divides by the root of inputs."""
    data = completions(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 32))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=1.0 if sick else layer.in_features**-0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("vanishing_gradients", also=("learning_rate_too_low",), margin=0.1)
def nine_sigmoids_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of ten layers has sigmoids between, at default weights; the twin has leaky ReLUs."""
    data = digits(seed)
    sizes = (64, 64, 64, 48, 48, 24, 48, 48, 64, 64, 64)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layer = nn.Linear(before, after)
        if not sick:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        layers += [layer, nn.Sigmoid() if sick else nn.LeakyReLU(0.1)]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.mse_loss(outputs, pixels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)
