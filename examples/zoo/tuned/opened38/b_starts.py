"""Inputs, first weights, and units."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened38.b_common import explained, parted, ratings


@sick("inputs_constant", margin=0.3)
def one_buffer_for_all_samples(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each sample is read into one buffer, and the list holds that buffer each time; the twin appends copies."""
    drawn = datasets.iris(seed)
    buffer, rows = torch.zeros(4), []
    for flower in drawn.inputs:
        buffer.copy_(flower)
        rows.append(buffer if sick else buffer.clone())
    data = Data(torch.stack(rows), drawn.targets, drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=16)
    return accuracy(model, data)


@sick("inputs_not_normalized", also=("dead_units", "saturated_units"), margin=0.05)
def features_added_behind_the_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Area and perimeter squared are appended after the others were standardised; the twin scales them too."""
    train, test = samples.diagnoses(seed)
    pair = samples.standardised((train, test), 0)
    parts = []
    extra = [part.tensors[0][:, 2:4].square() for part in (train, test)]
    for scaled, raw in zip(pair, extra, strict=True):
        added = raw if sick else (raw - extra[0].mean(0)) / extra[0].std(0)
        parts.append(torch.cat([scaled.tensors[0], added], 1))
    data = Data(parts[0], train.tensors[1], parts[1], test.tensors[1])
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


class _Factors(nn.Module):
    def __init__(self, equal: bool, width: int = 10) -> None:
        super().__init__()
        self.pictures, self.pixels = nn.Embedding(300, width), nn.Embedding(64, width)
        self.light = nn.Embedding(64, 1)
        nn.init.zeros_(self.light.weight)
        for table in (self.pictures, self.pixels):
            if equal:
                nn.init.constant_(table.weight, 0.3)
            else:
                nn.init.normal_(table.weight, std=0.3)

    def forward(self, where: torch.Tensor) -> torch.Tensor:
        products = self.pictures(where[:, 0]) * self.pixels(where[:, 1])
        return products.sum(1) + self.light(where[:, 1])[:, 0]


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def factors_that_start_equal(watch: Watch, *, seed: int, sick: bool) -> float:
    """All factors of a recommender begin at 0.3, and so stay copies of one; the twin draws them."""
    data = ratings(seed)
    model = _Factors(equal=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=300, batch_size=256, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


class _Sines(nn.Module):
    def __init__(self, usual: bool) -> None:
        super().__init__()
        sizes = [2, 64, 64, 64]
        self.layers = nn.ModuleList(nn.Linear(inward, 64) for inward in sizes[:-1])
        self.head = nn.Linear(64, 1)
        for index, layer in enumerate(self.layers):
            bound = 1 / layer.in_features if index == 0 else math.sqrt(6 / layer.in_features) / 20
            nn.init.uniform_(layer.weight, -1 if usual else -bound, 1 if usual else bound)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            places = torch.sin(20 * layer(places))
        return self.head(places)


@sick("poor_initialization", margin=0.2)
def sines_without_their_own_bounds(watch: Watch, *, seed: int, sick: bool) -> float:
    """A SIREN's weights are drawn from -1 to 1, so that sines of 20 times them are noise; the twin has its bounds."""
    picture = torch.from_numpy(datasets._photographs()[1][100:228:2, 200:328:2].copy()).float()
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
    light = (picture - picture.mean()) / picture.std()
    data = parted(torch.stack([rows, columns], -1).flatten(0, 1), light.view(-1, 1), seed)
    model = _Sines(usual=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=256, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("saturated_units", also=("vanishing_gradients",), margin=0.1)
def codes_that_are_too_steep(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hashing network's ``tanh(200 x)`` is flat nearly everywhere; the twin's is ``tanh(x)``."""
    train, test = samples.halves(seed)
    data = Data(*((part - 0.3) / 0.37 for part in (*train.tensors, *test.tensors)))
    steep = 200.0 if sick else 1.0

    class Hashed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.code, self.back = nn.Linear(32, 48), nn.Linear(48, 24), nn.Linear(24, 32)

        def forward(self, above: torch.Tensor) -> torch.Tensor:
            hidden = torch.tanh(steep * self.first(above))
            return self.back(torch.tanh(steep * self.code(hidden)))

    model = Hashed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(model, data)
