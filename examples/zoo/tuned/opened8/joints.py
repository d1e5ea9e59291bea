"""Nets put together in a wrong way: activations in wrong places, bounds, dimensions, and heads that cannot reach."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits, wine
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import explained, halves, names, standardised, tumours
from examples.zoo.tuned.opened8.frames import Spelled, Twofold, dense
from examples.zoo.tuned.opened8.stores import beside, of_pair, tagged


@sick("vanishing_gradients")
def softmax_between_all_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each hidden layer ends in a softmax, as the last one of a tutorial does: every value is near a thirty-second."""
    data = digits(seed)
    model = dense(64, 32, 32, 32, 10, between=(lambda: nn.Softmax(1)) if sick else nn.ReLU)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=150, batch_size=48)
    return accuracy(model, data)


class Warped(nn.Module):
    """Reads names with embeddings that are multiplied by a factor first."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.body, self.factor = Spelled(width=24), factor

    def forward(self, codes: Tensor) -> Tensor:
        states = self.body.rnn(self.body.letters(codes) * self.factor)[1][-1]
        return self.body.head(states)


@sick("saturated_units", also=("poor_initialization",))
def embeddings_times_the_root_of_the_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer's factor, the root of 512, came along with the embeddings into a GRU, and closes its gates."""
    data = of_pair(names(seed))
    model = Warped(512**0.5 if sick else 1.0)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=1.2e-2), data, steps=110, batch_size=40)
    return accuracy(model, data)


class Capped(nn.Module):
    """Rectifies from 0 to 6."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, values: Tensor) -> Tensor:
        return values.clamp(self.low, self.high)


@sick("dead_units")
def the_bounds_of_a_clamp_the_wrong_way_round(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clamp(6, 0)`` raises nothing: it gives the upper bound, which is zero, for every input."""
    data = wine(seed)
    model = dense(13, 24, 24, 3, between=lambda: Capped(6.0, 0.0) if sick else Capped(0.0, 6.0))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=90, batch_size=32)
    return accuracy(model, data)


class Directions(nn.Module):
    """Ten measurements to ten others."""

    def __init__(self, *, unit: bool) -> None:
        super().__init__()
        self.body, self.unit = dense(10, 32, 10, between=nn.SiLU), unit

    def forward(self, rows: Tensor) -> Tensor:
        found = self.body(rows)
        return functional.normalize(found, dim=1) if self.unit else found


@sick("target_out_of_range")
def outputs_of_unit_length(watch: Watch, *, seed: int, sick: bool) -> float:
    """A normalisation for retrieval stayed behind the head, and the targets have lengths from 1 to 15."""
    data = of_pair(standardised(tumours(seed), 0, 1))
    model = Directions(unit=sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=8e-3), data, steps=200, batch_size=32,
        loss_function=functional.mse_loss)  # fmt: skip
    with torch.no_grad():
        return explained(model(data.test_inputs), data.test_targets)


class Continued(nn.Module):
    """The lower rows of a digit from the upper ones, read by an LSTM."""

    def __init__(self, *, head: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 32) if head else nn.Identity()

    def forward(self, upper: Tensor) -> Tensor:
        return self.head(self.rnn(upper.unflatten(1, (4, 8)))[0][:, -1])


@sick("target_out_of_range")
def a_state_taken_for_the_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """The LSTM has as many units as there are targets, from 0 to 4, and its states go from -1 to 1."""
    rest = of_pair(halves(seed))
    data = Data(2 * rest.inputs - 1, 4 * rest.targets, 2 * rest.test_inputs - 1, 4 * rest.test_targets)
    model = Continued(head=not sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=0.01), data, steps=200, batch_size=64,
        loss_function=functional.smooth_l1_loss)  # fmt: skip
    with torch.no_grad():
        return explained(model(data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss")
def normalised_over_the_positions(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log_softmax(dim=1)`` of (N, T, C) goes over the positions of a line, and the classes stand in the last one."""
    data = tagged(seed, length=12)
    model = Twofold(12)

    def likelihood(scores: Tensor, tags: Tensor) -> Tensor:
        return functional.nll_loss(scores.log_softmax(1 if sick else 2).transpose(1, 2), tags)

    fit(watch, model, torch.optim.Adam(model.parameters(), lr=1e-2), data, steps=120, batch_size=16,
        loss_function=likelihood)  # fmt: skip
    return accuracy(model, data)


class Spread(nn.Module):
    """Judges a digit as a graph of pixels: what each of them holds goes to those around it."""

    def __init__(self, *, mixed: bool, width: int = 12) -> None:
        super().__init__()
        self.mixed = mixed
        self.enter, self.middle = nn.Linear(1, width), nn.Linear(width, width)
        self.head = nn.Linear(64 * width, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        held = functional.relu(self.enter(pixels[..., None]))
        nodes = held.transpose(0, 1).reshape(held.shape) if self.mixed else held
        held = functional.relu(self.middle(beside() @ nodes))
        return self.head(held.flatten(1))


@sick("batch_mixing")
def nodes_of_other_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """(64, N, F) is reshaped to (N, 64, F), so that each graph holds the nodes of several digits."""
    data = digits(seed)
    model = Spread(mixed=sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, steps=120, batch_size=32)
    return accuracy(model, data)
