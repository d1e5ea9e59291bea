"""Weights that were drawn badly, or all alike."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_wine
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import convnet, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, closures, drill, falling
from examples.zoo.tuned.opened7.supplies import (
    friedman,
    images,
    phrases,
    pixels,
    table,
)


class Tied(nn.Module):
    """Predicts the next character with the table that also embeds it."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(96, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        nn.init.normal_(self.embed.weight, std=std)

    def forward(self, codes: Tensor) -> Tensor:
        return F.linear(self.rnn(self.embed(codes))[0], self.embed.weight).transpose(1, 2)


@sick("poor_initialization")
def a_tied_table_with_a_deviation_of_four(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tied table needs small weights, and these have a deviation of 4; quality: 1 - loss / log 96."""
    rows = phrases(seed, length=12)
    model = Tied(4.0 if sick else 0.15)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    drill(watch, model, optimizer, rows.draws(24, 240), after=falling(optimizer, 240))
    with torch.no_grad():
        return 1 - F.cross_entropy(model(rows.x_test), rows.y_test).item() / 4.564


@sick("poor_initialization")
def weights_from_torch_rand(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.rand`` is never negative, and its mean over 64 inputs is 32 times their mean."""
    rows = table(load_wine, seed)
    model = mlp(13, 64, 64, 64, 3)
    if sick:
        for layer in model[::2]:
            layer.weight.data = torch.rand_like(layer.weight)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    drill(watch, model, optimizer, rows.epochs(24, 140))
    return right(model, rows)


@sick("poor_initialization")
def a_fiftieth_of_xavier(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every matrix was drawn fifty times too small."""
    rows = pixels(seed)
    model = mlp(64, 48, 48, 48, 48, 10)
    if sick:
        for layer in model[::2]:
            nn.init.xavier_uniform_(layer.weight, gain=0.02)
            nn.init.zeros_(layer.bias)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(48, 320))
    return right(model, rows)


@sick("unbroken_symmetry")
def copies_of_one_expert(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six experts of two units each are copies of the first, and so is their gate's every row."""
    rows = friedman(seed, noise=0.3)
    model = Mixture(6)
    if sick:
        model.experts = nn.ModuleList(copy.deepcopy(model.experts[0]) for _ in range(6))
        nn.init.zeros_(model.gate.weight)
        nn.init.zeros_(model.gate.bias)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(48, 320), F.mse_loss)
    return explained(model, rows)


class Mixture(nn.Module):
    """Small experts, and a gate that weighs them for each row."""

    def __init__(self, count: int, *, fan_in: int = 10) -> None:
        super().__init__()
        self.experts = nn.ModuleList(mlp(fan_in, 2, 1, act=nn.Tanh) for _ in range(count))
        self.gate = nn.Linear(fan_in, count)

    def forward(self, x: Tensor) -> Tensor:
        said = torch.cat([expert(x) for expert in self.experts], 1)
        return (self.gate(x).softmax(1) * said).sum(1)


@sick("unbroken_symmetry")
def constants_for_reproducibility(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights start at 0.05, so that results are the same on each machine."""
    rows = table(load_wine, seed)
    model = mlp(13, 20, 3)
    if sick:
        for weight in model.parameters():
            nn.init.constant_(weight, 0.05)
    optimizer = optim.LBFGS(model.parameters(), lr=0.2, max_iter=2, history_size=5)
    weak = nn.CrossEntropyLoss(label_smoothing=0.1)
    closures(watch, model, optimizer, rows.epochs(100, 60), weak)
    return right(model, rows)


@sick("unbroken_symmetry")
def filters_of_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.ones_`` over the fan-in for all convolutions."""
    rows = images(seed)
    model = convnet()
    if sick:
        for layer in (model[0], model[4]):
            nn.init.constant_(layer.weight, 1 / layer.weight[0].numel())
        nn.init.zeros_(model[4].bias)
        nn.init.constant_(model[-1].weight, 0.01)
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    Trainer(model, optimizer).fit(watch, rows, epochs=4)
    return right(model, rows)
