"""Weights that start at a wrong scale or all equal, and units that are dead or saturated from the start."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, binary_accuracy, fit, r_squared


def _started(model: nn.Module, std: float) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.normal_(module.weight, std=std)
            nn.init.zeros_(module.bias)
    return model


@sick("poor_initialization", also=("vanishing_gradients",))
def weights_that_start_tiny(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four layers whose weights start with a standard deviation of 0.001."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    if sick:
        _started(model, 1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("poor_initialization", also=("exploding_gradients",))
def weights_that_start_at_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A CNN whose weights are drawn from the standard normal distribution: its first losses are in the thousands."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    if sick:
        _started(model, 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=50, validate_every=40)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",))
def a_constant_in_all_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """All hidden units start with the same weights and stay the same unit."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    if sick:
        for parameter in model.parameters():
            nn.init.constant_(parameter, 0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization", "vanishing_gradients"))
def zeros_in_all_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Zeros where a net needs chance: only the last bias ever learns."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    if sick:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, validate_every=40)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",))
def biases_far_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The hidden biases start at -4, so that nearly no unit ever puts out anything."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.bias, -4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


class _FeedForward(nn.Module):
    """A regression with functional ReLUs."""

    def __init__(self, features: int, shift: float) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(features, 32), nn.Linear(32, 32), nn.Linear(32, 1)
        nn.init.constant_(self.second.bias, shift)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(functional.relu(self.second(functional.relu(self.first(values)))))


@sick("dead_units", also=("poor_initialization",))
def a_dead_layer_in_a_regression(watch: Watch, *, seed: int, sick: bool) -> float:
    """The second of three layers is dead from the start: the model can only put out a constant."""
    data = datasets.diabetes(seed)
    model = _FeedForward(10, shift=-8.0 if sick else 0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


class _Gain(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.factor * values


@sick("saturated_units", also=("poor_initialization",))
def a_gain_before_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """A factor of 60 before each tanh keeps it at its bounds."""
    data = datasets.digits(seed)
    gain = 60.0 if sick else 1.0
    model = nn.Sequential(
        nn.Linear(64, 32), _Gain(gain), nn.Tanh(), nn.Linear(32, 32), _Gain(gain), nn.Tanh(), nn.Linear(32, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",))
def gates_that_start_closed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sigmoid units whose biases start at -12: they put out zero, and their slope is zero."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 24), nn.Sigmoid(), nn.Linear(24, 24), nn.Sigmoid(), nn.Linear(24, 1))
    if sick:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.bias, -12.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels.float())

    fit(watch, model, optimizer, data, steps=200, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",))
def gates_that_start_open(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sigmoid units whose biases start at 15: they put out one, and pass no gradient on."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 10))
    if sick:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.bias, 15.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("vanishing_gradients", also=("poor_initialization",))
def ten_sigmoid_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten sigmoid layers, through which nearly no gradient comes; the twin has ReLUs."""
    data = datasets.digits(seed)
    model, width = nn.Sequential(), 64
    for _ in range(10):
        layer = nn.Linear(width, 40)
        if not sick:
            nn.init.kaiming_normal_(layer.weight)
        model.extend([layer, nn.Sigmoid() if sick else nn.ReLU()])
        width = 40
    model.append(nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


class _Deep(nn.Module):
    """A deep net of tanh layers, with or without a way past each of them."""

    def __init__(self, features: int, classes: int, depth: int, *, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.embed = nn.Linear(features, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))
        self.head = nn.Linear(32, classes)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = self.embed(values)
        for layer in self.layers:
            change = torch.tanh(layer(values))
            values = values + change if self.residual else change
        return self.head(values)


@sick("vanishing_gradients", also=("poor_initialization",))
def depth_without_a_way_past(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen layers with torch's default weights, each of which shrinks the gradient; the twin has residuals."""
    data = datasets.wine(seed)
    model = _Deep(13, 3, depth=16, residual=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)
