"""Weights that start with the wrong size, or that start alike."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits, iris, wine
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import explained, numerals, standardised, tumours
from examples.zoo.tuned.opened8.frames import Marker, by_position, dense, plain_convolutions
from examples.zoo.tuned.opened8.stores import of_pair, tagged


@sick("poor_initialization", also=("vanishing_gradients",))
def a_slope_of_ten_for_kaiming(watch: Watch, *, seed: int, sick: bool) -> float:
    """``a=10`` is taken for a gain, and it is a slope: every layer's weights are ten times too small."""
    data = of_pair(numerals(seed))
    model = plain_convolutions(8, depth=3)
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, a=10 if sick else 0)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=110, batch_size=40)
    return accuracy(model, data)


@sick("poor_initialization")
def truncated_at_two_but_not_narrowed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``trunc_normal_`` without its deviation draws with one of one, and 0.02 was meant."""
    data = tagged(seed, length=12)
    model = Marker(length=12, width=24)
    for name, weight in model.named_parameters():
        if weight.ndim > 1 and name != "places":
            nn.init.trunc_normal_(weight, std=1.0 if sick else 0.06)
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=4e-3), data, steps=120, batch_size=24,
        loss_function=by_position)  # fmt: skip
    return accuracy(model, data)


class Radial(nn.Module):
    """Units that answer near their centres, and a linear map of their answers."""

    def __init__(self, centres: Tensor, *, width: float, outputs: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(centres.clone())
        self.sharpness = nn.Parameter(torch.full((len(centres),), width**-2))
        self.head = nn.Linear(len(centres), outputs)

    def forward(self, rows: Tensor) -> Tensor:
        distances = (rows[:, None] - self.centres).square().mean(-1)
        return self.head(torch.exp(-self.sharpness * distances))


@sick("poor_initialization", also=("dead_units",))
def radial_units_that_reach_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """A width of 0.05 was chosen for two dimensions, and in thirteen no row is that near to a centre."""
    data = wine(seed)
    centres = torch.randn(24, 13) if sick else data.inputs[torch.randperm(len(data.inputs))[:24]]
    model = Radial(centres, width=0.05 if sick else 1.0, outputs=3)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=1e-2), data, steps=150, batch_size=32)
    return accuracy(model, data)


class Mixture(nn.Module):
    """The density of flowers (N, 4) as a mixture of bells, each with means and deviations of its own."""

    def __init__(self, means: Tensor) -> None:
        super().__init__()
        self.means = nn.Parameter(means.clone())
        self.spreads = nn.Parameter(torch.zeros_like(means))
        self.weights = nn.Parameter(torch.zeros(len(means)))

    def shares(self, flowers: Tensor) -> Tensor:
        """Returns the logarithms of the components' shares (N, K) of the density."""
        distances = (flowers[:, None] - self.means) / self.spreads.exp()
        bells = -(0.5 * distances.square() + self.spreads + 0.919).sum(-1)
        return bells + self.weights.log_softmax(0)

    def forward(self, flowers: Tensor) -> Tensor:
        return self.shares(flowers).logsumexp(1)


@sick("unbroken_symmetry")
def components_that_all_begin_at_the_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """All bells begin at the mean of the data, so all of them get the same gradient; quality: purity of the parts."""
    data = iris(seed)
    start = data.inputs.mean(0).expand(6, 4) if sick else data.inputs[torch.randperm(len(data.inputs))[:6]]
    model = Mixture(start)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    session = watch(model, optimizer)
    for flowers, _ in data.batches(56, 150):
        optimizer.zero_grad()
        density = model(flowers)
        loss = -density.mean()
        loss.backward()
        session.step(loss, inputs=flowers, outputs=density)
        optimizer.step()
    with torch.no_grad():
        parts = model.shares(data.inputs).argmax(1)
        names = torch.stack([data.targets[parts == part].mode().values if (parts == part).any() else torch.tensor(0)
                             for part in range(6)])  # fmt: skip
        return (names[model.shares(data.test_inputs).argmax(1)] == data.test_targets).float().mean().item()


class Bounded(nn.Module):
    """Ten measurements to ten others, which are bounded: a tanh stands at the end, as in an actor."""

    def __init__(self, *, spread: float) -> None:
        super().__init__()
        self.body = dense(10, 32, 32, 10)
        self.reach = 4.0
        nn.init.normal_(self.body[-1].weight, std=spread)

    def forward(self, rows: Tensor) -> Tensor:
        return self.reach * torch.tanh(self.body(rows))


@sick("saturated_units", also=("poor_initialization",))
def an_actor_with_a_wide_last_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The layer before the tanh starts with weights of deviation 12 instead of a small one."""
    data = of_pair(standardised(tumours(seed), 0, 1))
    model = Bounded(spread=12.0 if sick else 0.05)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=220, batch_size=32,
        loss_function=functional.mse_loss)  # fmt: skip
    with torch.no_grad():
        return explained(model(data.test_inputs), data.test_targets)


@sick("poor_initialization")
def biases_spread_over_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """``uniform_`` with bounds of fifty for the first layer's biases drowns sixty-four pixels."""
    data = digits(seed)
    model = dense(64, 48, 48, 10)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.uniform_(layer.bias, *((-50, 50) if sick else (-0.1, 0.1)))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=8e-3), data, steps=140, batch_size=48)
    return accuracy(model, data)
