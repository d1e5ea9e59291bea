"""Weights that start badly, and units that cannot learn."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened39.a_shared_loaders import explained, glyphs, joined, pixelwise, stamped


@sick("poor_initialization", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def normal_weights_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``init.normal_`` with its deviation of 1 fills each layer of a digits' net; the twin has Kaiming's."""
    data = glyphs(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU()
    ).extend([nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)])
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(layer.weight)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), data, steps=200)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def a_constant_in_each_hidden_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """``constant_(0.05)`` makes all hidden units equal, and they stay so; the twin has Xavier's random weights."""
    data = glyphs(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 24), nn.Tanh(), nn.Linear(24, 10))
    for layer in model[::2]:
        if sick:
            nn.init.constant_(layer.weight, 0.05)
        else:
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("vanishing_gradients", also=("saturated_units", "learning_rate_too_low"), margin=0.2)
def a_dozen_layers_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve layers of sigmoids let no gradient through to the first; the twin has residual blocks of ReLUs."""
    data = glyphs(seed, flat=True)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.inner = nn.LayerNorm(32), nn.Linear(32, 32)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden + 0.5 * self.inner(self.norm(hidden)).relu()

    plain = [layer for _ in range(12) for layer in (nn.Linear(32, 32), nn.Sigmoid())]
    model = nn.Sequential(nn.Linear(64, 32), *(plain if sick else [Block() for _ in range(12)]), nn.Linear(32, 10))
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9), data, steps=200)
    return accuracy(model, data)


@sick(
    "exploding_gradients",
    also=("poor_initialization", "learning_rate_too_high", "non_finite_forward", "saturated_units", "dead_units"),
    margin=0.1,
)
def residual_sums_without_any_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forty residual blocks double their sums with each other; the twin scales each branch by one over √40."""
    drawn = joined(samples.standardised(samples.tumours(seed), 0, 1))

    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(32, 32), nn.Linear(32, 32)
            for layer in (self.one, self.two):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden + self.two(self.one(hidden).relu()) * (1.0 if sick else 0.05)

    model = nn.Sequential(nn.Linear(10, 32), *(Branch() for _ in range(20)), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, drawn, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, drawn)


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def biases_far_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop over the parameters sets all biases to -3, and most ReLUs never fire; the twin sets them to 0."""
    data = glyphs(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.constant_(parameter, -3.0 if sick else 0.0)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.1), data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.03)
def a_gain_of_ten_before_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """``xavier_normal_(gain=10)`` drives each tanh to its ends in a regression; the twin's gain is that of tanh."""
    data = joined(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10))
    for layer in model[:4:2]:
        nn.init.xavier_normal_(layer.weight, gain=10.0 if sick else 1.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("target_out_of_range", also=("saturated_units", "dead_units", "wrong_output_or_loss"), margin=0.1)
def a_relu_over_a_signed_target(watch: Watch, *, seed: int, sick: bool) -> float:
    """A regression's head ends in a ReLU, and half of the standardised targets are below 0; the twin's is linear."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    if sick:
        model.append(nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("frozen_parameters", margin=0.05)
def a_body_frozen_that_nobody_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recipe of fine tuning freezes a segmenter's body, yet its weights are random; the twin trains all of it."""
    data = stamped(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 8, 1)
    )
    if sick:
        body.requires_grad_(False)
    model = nn.Sequential(body, nn.ReLU(), nn.Conv2d(8, 1, 1))
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=5e-3)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=loss_function)
    return pixelwise(model, data)
