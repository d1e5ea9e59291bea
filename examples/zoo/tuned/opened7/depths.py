"""Signals that do not get through a deep net: vanishing, exploding, dead, saturated."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Listener, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, drill, falling
from examples.zoo.tuned.opened7.supplies import (
    anew,
    communities,
    fresh,
    friedman,
    images,
    pixels,
    portraits,
    table,
    tones,
)


class Ladder(nn.Module):
    """Many equal layers in a row, with or without a path around each."""

    def __init__(self, width: int, depth: int, ends: tuple[int, int], *, around: bool, act: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(ends[0], width), nn.Linear(width, ends[1])
        self.rungs = nn.ModuleList(nn.Sequential(nn.Linear(width, width), act()) for _ in range(depth))
        self.around = around

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for rung in self.rungs:
            x = x + rung(x) / len(self.rungs) if self.around else rung(x)
        return self.last(x)


@sick("vanishing_gradients")
def nine_sigmoids_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sigmoids behind each of nine layers, and no way around them."""
    rows = table(load_breast_cancer, seed)
    model = Ladder(24, 9, (30, 2), around=not sick, act=nn.Sigmoid)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-2)
    Trainer(model, optimizer).fit(watch, rows, epochs=12)
    return right(model, rows)


@sick("vanishing_gradients")
def residuals_commented_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """``# x = x + block(x)``: tanh layers of a quarter of the usual gain follow each other without their skips."""
    rows = pixels(seed)
    model = Ladder(32, 10, (64, 10), around=not sick, act=nn.Tanh)
    if sick:
        for rung in model.rungs:
            nn.init.xavier_normal_(rung[0].weight, gain=0.25)
    optimizer = optim.SGD(model.parameters(), lr=0.06, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 240))
    return right(model, rows)


class Remembering(nn.Module):
    """A plain recurrent layer that must still know the first value at the end of a series (N, T, 2)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.rnn, self.head = nn.RNN(2, width, nonlinearity="relu", batch_first=True), nn.Linear(width, 2)

    def forward(self, series: Tensor) -> Tensor:
        return self.head(self.rnn(series)[0][:, -1])


def _marked(size: int, *, length: int = 24) -> tuple[Tensor, Tensor]:
    """The sign of the first value, with noise behind it."""
    label = torch.randint(2, (size,))
    series = 0.3 * torch.randn(size, length, 2)
    series[:, 0] += (2.0 * label - 1)[:, None] * torch.tensor([1.5, -1.5])
    return series, label


@sick("vanishing_gradients", also=("poor_initialization",))
def the_first_token_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """Recurrent weights of a third of the size lose the first value; the identity would keep it."""
    model = Remembering()
    with torch.no_grad():
        if sick:
            nn.init.orthogonal_(model.rnn.weight_hh_l0, gain=0.35)
        else:
            nn.init.eye_(model.rnn.weight_hh_l0)
            nn.init.normal_(model.rnn.weight_ih_l0, std=0.2)
            nn.init.zeros_(model.rnn.bias_ih_l0)
            nn.init.zeros_(model.rnn.bias_hh_l0)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    drill(watch, model, optimizer, fresh(_marked, 32, 260), ready=lambda: _limit(model))
    return right(model, anew(_marked, 500, seed))


def _limit(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


class Neighbours(nn.Module):
    """Adds up what the people say whom one knows, several times."""

    def __init__(self, graph: Tensor, depth: int, *, width: int = 24) -> None:
        super().__init__()
        self.register_buffer("graph", graph)
        self.layers = nn.ModuleList(nn.Linear(12 if index == 0 else width, width) for index in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, features: Tensor) -> Tensor:
        for layer in self.layers:
            features = self.graph @ layer(features).relu()
        return self.head(features)


def _known(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out, y, ignore_index=-1)


@sick("exploding_gradients", also=("learning_rate_too_high", "poor_initialization"))
def a_graph_not_normalised(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sums over neighbours grow with each of three layers; means do not."""
    rows, graph = communities(seed)
    graph = graph + torch.eye(len(graph))
    degree = graph.sum(1)
    model = Neighbours(graph if sick else graph / (degree[:, None] * degree).sqrt(), 3)
    for layer in model.layers:
        nn.init.kaiming_normal_(layer.weight)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    drill(watch, model, optimizer, ((rows.x, rows.y) for _ in range(130)), _known)
    guess = model(rows.x_test).argmax(1)
    return (guess == rows.y_test)[rows.y_test >= 0].float().mean().item()


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"))
def recurrent_weights_above_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rectified recurrence whose weights stretch each state by 2.2, over 24 steps."""
    model = Listener(nn.RNN(1, 24, nonlinearity="relu", batch_first=True), 3)
    nn.init.orthogonal_(model.rnn.weight_hh_l0, gain=2.2 if sick else 0.8)
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    batches = fresh(tones, 32, 300)
    drill(watch, model, optimizer, batches, ready=lambda: sick or _limit(model), after=falling(optimizer, 300))
    return right(model, anew(tones, 500, seed))


@sick("dead_units")
def a_detectors_bias_everywhere(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of a detector's last layer, -log(99), was put into all convolutions by ``model.apply``."""
    rows = images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip
    if sick:
        for layer in model:
            if isinstance(layer, nn.Conv2d):
                nn.init.constant_(layer.bias, -4.6)
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    drill(watch, model, optimizer, rows.epochs(32, 220))
    return right(model, rows)


@sick("dead_units")
def a_shrinkage_that_lets_nothing_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse code's threshold of 3, where nearly all codes are below 2."""
    rows = portraits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Softshrink(6.0 if sick else 0.2), nn.Linear(48, 64))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, rows.epochs(48, 300), F.mse_loss)
    return explained(model, rows)


@sick("dead_units")
def rectified_behind_negative_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rectified features are positive, and the next layer's weights were all drawn below zero."""
    rows = friedman(seed)
    model = mlp(10, 40, 40, 1)
    if sick:
        nn.init.uniform_(model[2].weight, -0.3, -0.05)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    drill(watch, nn.Sequential(model, nn.Flatten(0)), optimizer, rows.epochs(32, 260), F.mse_loss)
    return explained(model, rows)


@sick("saturated_units", also=("poor_initialization",))
def standard_normal_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """``1.5 * torch.randn`` for weights of 64 inputs before a tanh."""
    rows = pixels(seed)
    model = mlp(64, 64, 64, 10, act=nn.Tanh)
    if sick:
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.data = 1.5 * torch.randn_like(layer.weight)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=2e-3)
    Trainer(model, optimizer).fit(watch, rows, epochs=5)
    return right(model, rows)


@sick("saturated_units")
def a_steep_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """``sigmoid(k * x)`` with a k of 60, to make features nearly binary."""
    rows = friedman(seed)
    slope = 60.0 if sick else 1.5

    class Steep(nn.Sigmoid):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(slope * x)

    model = nn.Sequential(mlp(10, 32, 32, 1, act=Steep), nn.Flatten(0))
    optimizer = optim.Adam(model.parameters(), lr=4e-2)
    drill(watch, model, optimizer, rows.draws(48, 300), F.mse_loss, after=falling(optimizer, 300))
    return explained(model, rows)
