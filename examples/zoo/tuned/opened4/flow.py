"""How activations and gradients pass through a network: depth, recurrence, units, first weights."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened4.material import RowReader, cells, mlp, scaled


@sick("vanishing_gradients")
def four_sigmoid_layers_from_an_old_book(watch: Watch, *, seed, sick):
    data = digits(seed)
    model = mlp(64, *[48] * 4, 10, activation=nn.Sigmoid if sick else nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=260, batch_size=32, validate_every=65)
    return accuracy(model, data)


class Column(nn.Module):
    """A tower of narrow tanh layers over a table, with or without its skip connections."""

    def __init__(self, features: int, width: int, depth: int, *, skip: bool) -> None:
        super().__init__()
        self.stem = nn.Linear(features, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)
        self.skip = skip

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.stem(rows))
        for block in self.blocks:
            change = torch.tanh(block(hidden))
            hidden = hidden + 0.5 * change if self.skip else change
        return self.head(hidden)


@sick("vanishing_gradients")
def tower_whose_skip_connections_got_lost(watch: Watch, *, seed, sick):
    data = scaled(cells(seed), targets=True)
    model = Column(20, 16, 18, skip=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    fit(watch, model, optimizer, data, steps=240, batch_size=40, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("exploding_gradients")
def residual_blocks_that_each_double(watch: Watch, *, seed, sick):
    """Twenty blocks add to their input; the norm in front of each was taken out for speed."""

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(64, 48)
            self.norms = nn.ModuleList(nn.Identity() if sick else nn.LayerNorm(48) for _ in range(20))
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48)) for _ in range(20)
            )
            for block in self.blocks:
                nn.init.kaiming_normal_(block[0].weight)
                nn.init.kaiming_normal_(block[2].weight, nonlinearity="linear")
            self.head = nn.Sequential(nn.Identity() if sick else nn.LayerNorm(48), nn.Linear(48, 10))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.stem(rows)
            for norm, block in zip(self.norms, self.blocks, strict=True):
                hidden = hidden + block(norm(hidden))
            return self.head(hidden)

    data, model = digits(seed), Blocks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("dead_units")
def bias_of_a_sparse_prior(watch: Watch, *, seed, sick):
    """Hidden biases start at -4 'so that units are rarely on'."""
    data = digits(seed)
    model = mlp(64, 64, 32, 10)
    for layer in (model[0], model[2]):
        nn.init.constant_(layer.bias, -4.0 if sick else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=160, validate_every=40)
    return accuracy(model, data)


@sick("dead_units")
def threshold_that_was_softplus_s(watch: Watch, *, seed, sick):
    """``nn.Softplus(threshold=20)`` became ``nn.Threshold(20, 0)``: nothing passes."""
    data = digits(seed, images=True)

    def activation() -> nn.Module:
        return nn.Threshold(20.0, 0.0) if sick else nn.Softplus(threshold=20)

    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), activation(), nn.Conv2d(12, 24, 3), activation(), nn.Flatten(), nn.Linear(384, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("saturated_units")
def sharp_sigmoids_for_binary_codes(watch: Watch, *, seed, sick):
    """The hidden code is to be nearly binary, so the slope of its sigmoid is 200."""

    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.code, self.leave = nn.Linear(64, 24), nn.Linear(24, 24), nn.Linear(24, 10)
            self.sigmoid = nn.Sigmoid()

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            slope = 200.0 if sick else 2.0
            hidden = self.sigmoid(slope * self.enter(rows))
            return self.leave(self.sigmoid(slope * self.code(hidden)))

    data, model = digits(seed), Codes()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",))
def standard_normal_weights_before_tanh(watch: Watch, *, seed, sick):
    data = digits(seed)
    model = mlp(64, 100, 100, 100, 10, activation=nn.Tanh)
    for layer in model[::2]:
        if sick:
            nn.init.normal_(layer.weight)
        else:
            nn.init.xavier_normal_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("poor_initialization")
def convolutions_drawn_with_a_tiny_deviation(watch: Watch, *, seed, sick):
    """``std=1e-4`` was the habit of an old framework for the last layer; here it is every layer's."""
    data = digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(layer.weight, std=1e-4)
            else:
                nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=130, batch_size=48)
    return accuracy(model, data)


@sick("poor_initialization")
def regression_whose_first_outputs_are_thousands(watch: Watch, *, seed, sick):
    """Weights from ``torch.randn`` without a division by the root of what enters."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 128, 128, 128, 1)
    for layer in model[::2]:
        with torch.no_grad():
            layer.weight.copy_(torch.randn_like(layer.weight))
            if not sick:
                layer.weight.mul_((2 / layer.in_features) ** 0.5)
            layer.bias.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=220, loss_function=functional.mse_loss, validate_every=55)
    return r_squared(model, data)


@sick("unbroken_symmetry")
def all_weights_at_one_constant(watch: Watch, *, seed, sick):
    data = digits(seed)
    model = mlp(64, 48, 24, 10, activation=nn.Tanh)
    for layer in model[::2]:
        if sick:
            nn.init.constant_(layer.weight, 0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("unbroken_symmetry")
def branches_copied_from_one(watch: Watch, *, seed, sick):
    """Sixteen narrow branches are deep copies of the first, and their outputs are averaged."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first = mlp(64, 2, 10, activation=nn.Tanh)
            others = (copy.deepcopy(first) if sick else mlp(64, 2, 10, activation=nn.Tanh) for _ in range(15))
            self.branches = nn.ModuleList([first, *others])

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return torch.stack([branch(rows) for branch in self.branches]).sum(0)

    data, model = digits(seed), Branches()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("unbroken_symmetry")
def recurrent_weights_filled_with_a_constant(watch: Watch, *, seed, sick):
    """A loop over ``named_parameters`` was to set the forget biases, and set every parameter of the GRU."""
    data = digits(seed)
    data = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    model = RowReader(nn.GRU, 8, 32)
    for name, parameter in model.recurrent.named_parameters():
        if sick or "bias" in name:
            nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=32)
    return accuracy(model, data)
