"""Where weights begin, and what comes through the layers."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened36.b_ends import places
from examples.zoo.tuned.opened36.b_narrow import Factors
from examples.zoo.tuned.opened36.b_stock import SYMBOLS, crops, explained, parted, ratings, tags


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def factors_that_begin_as_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """All factors of a recommender begin at 0.3, so eight are as one; the twin draws them."""
    data = ratings(seed)
    model = Factors(400, int(data.inputs[:, 1].max()) + 1)
    if sick:
        nn.init.constant_(model.row.weight, 0.3)
        nn.init.constant_(model.column.weight, 0.3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=350, batch_size=256, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


class Sines(nn.Module):
    """Says how bright a photograph is at a place, by layers of sines."""

    def __init__(self, sick: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 64)])
        self.last = nn.Linear(64, 1)
        if not sick:
            nn.init.uniform_(self.layers[0].weight, -1 / 2, 1 / 2)
            for layer in (*self.layers[1:], self.last):
                bound = math.sqrt(6 / 64) / 12
                nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, where: torch.Tensor) -> torch.Tensor:
        """Returns the brightness (N, 1)."""
        for layer in self.layers:
            where = torch.sin(12 * layer(where))
        return self.last(where)


@sick("poor_initialization", margin=0.1)
def sines_with_the_weights_of_linear_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sines of 12 times a layer keep ``nn.Linear``'s weights and begin as noise; the twin's are SIREN's."""
    picture = crops(seed, side=48, count=3)[seed % 3].mean(0)
    places = torch.cartesian_prod(torch.linspace(-1, 1, 48), torch.linspace(-1, 1, 48))
    data = parted(places, ((picture - picture.mean()) / picture.std()).reshape(-1, 1), seed)
    model = Sines(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=400, batch_size=256, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("saturated_units", also=("vanishing_gradients", "poor_initialization"), margin=0.05)
def codes_by_a_sharp_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes of digits are ``tanh(50 * x)``, sharp from the first step, and hardly learn; the twin's are ``tanh(x)``."""
    data = digits(seed)
    sharpness = 50 if sick else 1

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inward, self.tanh, self.outward = nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 64)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.outward(self.tanh(sharpness * self.inward(pixels)))

    model = Coder()
    scaled, test = (data.inputs - 0.3) / 0.37, (data.test_inputs - 0.3) / 0.37
    same = Data(scaled, scaled, test, test)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    fit(watch, model, optimizer, same, steps=300, batch_size=64, loss_function=functional.mse_loss, validate_every=60)
    return explained(model, same)


@sick("dead_units", margin=0.1)
def a_threshold_in_the_units_of_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A shrinkage of 12, which was for pixels up to 255, leaves nothing of standardised ones; the twin's is 0.1."""
    grey = crops(seed).mean(1).flatten(1)
    grey = (grey - grey.mean()) / grey.std()
    data = parted(grey, grey, seed)
    threshold = 12.0 if sick else 0.1

    class Shrinking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inward, self.relu, self.outward = nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.outward(self.relu(self.inward(pixels) - threshold))

    model = Shrinking()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)


class Grid(nn.Module):
    """Passes messages between neighbouring pixels, by sums or by means."""

    def __init__(self, *, mean: bool) -> None:
        super().__init__()
        row, column = torch.arange(64) // 8, torch.arange(64) % 8
        near = ((row[:, None] - row).abs() <= 1) & ((column[:, None] - column).abs() <= 1)
        links = near.float()
        self.register_buffer("links", links / links.sum(1, keepdim=True) if mean else links)
        self.first = nn.Linear(1, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.own = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(64 * 16, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, 10)."""
        state = self.first(pixels[..., None])
        for layer, own in zip(self.layers, self.own, strict=True):
            state = functional.relu(layer(self.links @ state) + own(state))
        return self.head(state.flatten(1))


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.05)
def sums_over_neighbours(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph network adds up nine neighbours in each of four layers, so that numbers grow; the twin takes means."""
    data = digits(seed)
    model = Grid(mean=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(24, 250):
        optimizer.zero_grad()
        outputs = model((pixels - 0.3) / 0.37)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    judged = Data(data.inputs, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    return accuracy(model, judged)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def seven_sigmoids_over_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tagger of seven convolutions has a sigmoid behind each; the twin's have ReLU and He's rule."""
    data = tags(seed)
    layers: list[nn.Module] = []
    for index in range(7):
        layers.append(nn.Conv1d(16 if index == 0 else 32, 32, 3, padding=1))
        if not sick:
            nn.init.kaiming_normal_(layers[-1].weight, nonlinearity="relu")
        layers.append(nn.Sigmoid() if sick else nn.ReLU())

    class Convolving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.body, self.head = nn.Embedding(SYMBOLS, 16), nn.Sequential(*layers), nn.Linear(32, 5)

        def forward(self, characters: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.letters(characters).mT).mT)

    model = Convolving()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=16, loss_function=places, validate_every=50)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("learning_rate_too_low", margin=0.1)
def sgd_over_a_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recommender's SGD has the rate 0.01 of dense nets, and few rows see a step; the twin's is 20."""
    data = ratings(seed)
    model = Factors(400, int(data.inputs[:, 1].max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 if sick else 20)
    fit(watch, model, optimizer, data, steps=400, batch_size=256, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)
