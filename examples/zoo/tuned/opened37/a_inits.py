"""First weights, units and gradients on their way."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened37.a_common import explained, lenet, numerals, parted, tagged


@sick("vanishing_gradients", also=("saturated_units",), margin=0.1)
def seven_sigmoids_below_a_classifier(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven layers of sigmoids let no gradient through to the first ones; the twin has ReLUs."""
    data = numerals(seed)
    layers: list[nn.Module] = [nn.Flatten()]
    for width in (64, *(48,) * 6):
        layers += [nn.Linear(width, 48), nn.Sigmoid() if sick else nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=300, validate_every=50)
    return accuracy(model, data)


class Scan(nn.Module):
    """Reads a digit four pixels by four pixels, with a plain recurrence of ReLUs."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.reader = nn.RNN(4, 48, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(48, 10)
        if spread:
            nn.init.normal_(self.reader.weight_hh_l0, std=spread)
        else:
            nn.init.eye_(self.reader.weight_hh_l0)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 10)."""
        return self.head(self.reader(pictures.flatten(1).unflatten(1, (16, 4)))[0][:, -1])


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.05)
def pixels_after_pixels_with_large_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Recurrent weights of deviation 0.5 grow gradients over sixteen places; the twin begins with the identity."""
    data = numerals(seed)
    model = Scan(0.5 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def biases_that_switch_all_units_off(watch: Watch, *, seed: int, sick: bool) -> float:
    """Biases of -5 were meant to make a code sparse, and no unit ever answers; the twin's are 0."""
    patches = (one := datasets.patches(seed)).sub(one.mean()).div(one.std())
    data = parted(patches, patches, seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    nn.init.constant_(model[0].bias, -5.0 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("saturated_units", also=("poor_initialization",), margin=0.05)
def normal_without_a_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_`` gives weights of deviation 1 to layers of tanh, which saturate; the twin has Xavier's."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight) if sick else nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=240, validate_every=40)
    return accuracy(model, data)


class Own(nn.Module):
    """A layer as in many a first network of one's own."""

    def __init__(self, inward: int, outward: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(scale * torch.randn(inward, outward))
        self.bias = nn.Parameter(torch.zeros(outward))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the inputs times the weights, plus the bias."""
        return inputs @ self.weight + self.bias


@sick("poor_initialization", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def randn_for_a_layer_of_ones_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layers of one's own begin with ``torch.randn`` as it is; the twin divides it by the root of half the inputs."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(Own(10, 64, 1.0 if sick else 0.45), nn.ReLU(), Own(64, 64, 1.0 if sick else 0.18), nn.ReLU())
    model.append(Own(64, 1, 1.0 if sick else 0.05))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return explained(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def all_filters_begin_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every layer's weights begin at 0.02, so filters stay copies of one another; the twin takes Kaiming's."""
    data = numerals(seed)
    model = lenet()

    def begin(layer: nn.Module) -> None:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            if sick:
                nn.init.constant_(layer.weight, 0.02)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    model.apply(begin)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def vectors_from_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` freezes an embedding of random vectors, as by default; the twin says ``freeze=False``."""
    tags = tagged(seed, length=13, count=8000)
    data = Data(tags.inputs, tags.targets[:, 6], tags.test_inputs, tags.test_targets[:, 6])
    letters = nn.Embedding.from_pretrained(torch.randn(98, 4), freeze=sick)
    model = nn.Sequential(letters, nn.Flatten(), nn.Linear(52, 48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=400, batch_size=64, validate_every=100)
    return accuracy(model, data)
