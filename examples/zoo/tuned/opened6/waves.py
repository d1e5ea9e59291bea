"""Synthetic series: sums of waves with noise, whose next values are forecast."""

import math
from collections.abc import Iterator

import torch
from torch import nn

from examples.zoo.cases import Watch, sick

PAST, AHEAD = 32, 4


class Waves:
    """A long series, and windows of it: what was, and what comes."""

    def __init__(self, seed: int, *, offset: float = 0.0, noise: float = 0.1) -> None:
        source = torch.Generator().manual_seed(seed)
        time = torch.arange(1600) / 10
        phases = torch.rand(3, generator=source) * 2 * math.pi
        waves = sum(torch.sin(time * speed + phase) for speed, phase in zip((1.0, 2.3, 4.1), phases, strict=True))
        self.values = offset + (waves + noise * torch.randn(1600, generator=source)) / 1.25

    def _windows(self, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.values[starts[:, None] + torch.arange(PAST + AHEAD)]
        return found[:, :PAST], found[:, PAST:]

    def stream(self, steps: int, size: int = 32) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(steps):
            yield self._windows(torch.randint(0, 1200 - PAST - AHEAD, (size,)))

    def unseen(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._windows(torch.arange(1200, 1600 - PAST - AHEAD, 3))


def skill(guess: torch.Tensor, truth: torch.Tensor) -> float:
    """Returns the share of the variance that a forecast explains."""
    return max(-1.0, 1 - float((guess - truth).square().mean() / truth.var()))


def forecaster(width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(PAST, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, AHEAD))


def train(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, stream: object, loss_of: object) -> None:
    """Trains on a stream of windows, with a loss of a forecast and the truth."""
    session = watch(model, optimizer)
    for past, ahead in stream:  # type: ignore[attr-defined]
        optimizer.zero_grad()
        guess = model(past)
        loss = loss_of(guess, ahead)  # type: ignore[operator]
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()


def mean_square(guess: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return torch.mean((guess - truth) ** 2)


def judged(model: nn.Module, waves: Waves) -> float:
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(past), ahead)


@sick("learning_rate_too_low")
def a_rate_from_another_age(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD with 1e-5, as for a sum over pixels, in a mean over four values."""
    waves, model = Waves(seed), forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5 if sick else 0.1, momentum=0.9, nesterov=True)
    train(watch, model, optimizer, waves.stream(180), mean_square)
    return judged(model, waves)


class Recall(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.read = nn.GRU(1, 24, batch_first=True), nn.Linear(24, AHEAD)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.read(self.cell(past[:, :, None])[0][:, -1])


@sick("inputs_not_normalized")
def temperatures_in_kelvin(watch: Watch, *, seed: int, sick: bool) -> float:
    """The past is in Kelvin, around 293, and the forecast is of the difference from that."""
    waves, model = Waves(seed), Recall()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    offset = 293.0 if sick else 0.0
    stream = ((past + offset, ahead) for past, ahead in waves.stream(80, 24))
    train(watch, model, optimizer, stream, mean_square)
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(past + offset), ahead)


@sick("saturated_units", also=("poor_initialization",))
def tanh_with_large_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Uniform weights between -2 and 2, whatever the number of inputs."""
    waves = Waves(seed)
    model = nn.Sequential(nn.Linear(PAST, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, AHEAD))
    if sick:
        for layer in (model[0], model[2]):
            nn.init.uniform_(layer.weight, -2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train(watch, model, optimizer, waves.stream(150), mean_square)
    return judged(model, waves)


@sick("dead_units", also=("poor_initialization",))
def biases_for_sparse_codes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Biases of -4 that shall make the code sparse leave nothing of it."""
    waves, model = Waves(seed), forecaster()
    nn.init.constant_(model[2].bias, -4.0 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train(watch, model, optimizer, waves.stream(150), mean_square)
    return judged(model, waves)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def errors_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Squared errors are summed over batch and horizon, with the rate of a mean."""
    waves, model = Waves(seed), forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def total(guess: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        squares = (guess - truth).pow(2)
        return squares.sum() if sick else squares.mean()

    train(watch, model, optimizer, waves.stream(150), total)
    return judged(model, waves)


@sick("labels_unrelated")
def windows_counted_in_another_way(watch: Watch, *, seed: int, sick: bool) -> float:
    """The forecasts' rows come from an index that was drawn again."""
    waves, model = Waves(seed), forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    streams = zip(waves.stream(150), waves.stream(150), strict=True)
    stream = ((a[0], b[1] if sick else a[1]) for a, b in streams)
    train(watch, model, optimizer, stream, mean_square)
    return judged(model, waves)


@sick("unbroken_symmetry", also=("poor_initialization",))
def all_weights_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.apply`` with a constant for every weight, so that runs are reproducible."""
    waves, model = Waves(seed), forecaster()

    def fixed(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.05)
            nn.init.zeros_(module.bias)

    if sick:
        model.apply(fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train(watch, model, optimizer, waves.stream(150), mean_square)
    return judged(model, waves)


class Spread(nn.Module):
    """Forecasts a mean and a deviation for each value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(PAST, 32), nn.ReLU(), nn.Linear(32, 2 * AHEAD))

    def forward(self, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle, wide = self.body(past).chunk(2, 1)
        return middle, nn.functional.softplus(wide) + 0.05


@sick("flipped_loss_sign")
def likelihood_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The log-likelihood of a normal distribution is minimised."""
    waves, model = Waves(seed), Spread()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for past, ahead in waves.stream(130):
        middle, wide = model(past)
        fits = torch.distributions.Normal(middle, wide).log_prob(ahead).mean()
        loss = fits if sick else -fits
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=middle, targets=ahead)
        optimizer.step()
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(past)[0], ahead)
