"""How networks begin, and what comes into them."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened51.i_bench import as_data, brightness, code_lines, explained, mlp


@sick("vanishing_gradients", margin=0.2)
def ten_layers_of_sigmoids_for_lines(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten layers of sigmoids let no gradient through to the first ones; the twin has ReLU and He's weights."""
    data = code_lines(seed)
    activation = nn.Sigmoid if sick else nn.ReLU
    model = mlp(96, *[40] * 9, 6, activation=activation)
    for layer in model:
        if isinstance(layer, nn.Linear):
            (nn.init.xavier_uniform_ if sick else nn.init.kaiming_normal_)(layer.weight)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


class Scanner(nn.Module):
    """A recurrence with ReLU over the rows of an image, cut in halves."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.cell = nn.RNN(4, 40, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(40, 10)
        nn.init.orthogonal_(self.cell.weight_hh_l0, gain=gain)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(images.view(len(images), 16, 4))[0][:, -1])


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "dead_units"), margin=0.1)
def orthogonal_recurrence_with_a_gain_of_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence begins with an orthogonal matrix times 3, and grows over 16 places; the twin has a gain of 1."""
    data = datasets.digits(seed)
    model = Scanner(3.0 if sick else 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def detector_prior_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A detector's prior of -4.6 for the last bias is set in all layers, whose ReLUs stay off; the twin leaves them."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    for layer in model:
        if sick and isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -4.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.05)
def randn_weights_carried_over_from_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights are drawn by ``torch.randn`` as in NumPy, so that all tanh are at ±1; the twin keeps PyTorch's own."""
    data = as_data(samples.standardised(samples.tumours(seed), 0, 1))
    model = mlp(10, 100, 100, 100, 10, activation=nn.Tanh)
    if sick:
        for layer in list(model)[:-1:2]:
            layer.weight.data = 2 * torch.randn_like(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


def neighbourhood(images: torch.Tensor, count: int = 6) -> torch.Tensor:
    """Returns the normalised adjacency of the nearest neighbours."""
    nearest = torch.cdist(images, images).topk(count + 1, largest=False).indices
    joined = torch.zeros(len(images), len(images)).scatter_(1, nearest, 1.0)
    joined = torch.maximum(joined, joined.T)
    scale = joined.sum(1).rsqrt()
    return scale[:, None] * joined * scale


class Graph(nn.Module):
    """Two convolutions on a graph."""

    def __init__(self, joined: torch.Tensor, scaled: bool) -> None:
        super().__init__()
        self.register_buffer("joined", joined)
        self.one, self.two, self.head = (nn.Parameter(torch.randn(*size)) for size in ((64, 48), (48, 48), (48, 10)))
        if scaled:
            for weights in self.parameters():
                nn.init.xavier_uniform_(weights)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        found = functional.relu(self.joined @ (nodes @ self.one))
        return functional.relu(self.joined @ (found @ self.two)) @ self.head


@sick("poor_initialization", margin=0.03)
def graph_convolutions_drawn_by_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph network's own weights are drawn by ``torch.randn`` and never scaled; the twin takes Xavier's scale."""
    train, test = samples.numerals(seed)
    known, nodes = 60, torch.cat([train.tensors[0][:300], test.tensors[0][:300]]).flatten(1)
    labels = torch.cat([train.tensors[1][:300], test.tensors[1][:300]])
    model = Graph(neighbourhood(nodes), scaled=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    session = watch(model, optimizer)
    for _ in range(100):
        optimizer.zero_grad()
        outputs = model(nodes)[:known]
        loss = functional.cross_entropy(outputs, labels[:known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs, targets=labels[:known])
        optimizer.step()
    return samples.accuracy(predicted(model, nodes)[known:], labels[known:])


class Committee(nn.Module):
    """Members that each look at an image, and whose findings are added."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.last = nn.Linear(len(members), 10)
        nn.init.zeros_(self.last.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([member(images) for member in self.members], 1))


@sick("unbroken_symmetry", margin=0.2)
def members_copied_from_the_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """All members are deep copies of one, and a head of zeros keeps them equal; the twin makes each anew."""
    data = datasets.digits(seed)
    first = mlp(64, 6, 1, activation=nn.Tanh)
    members = [copy.deepcopy(first) if sick else mlp(64, 6, 1, activation=nn.Tanh) for _ in range(16)]
    model = Committee(members)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250)
    return accuracy(model, data)


@sick("inputs_not_normalized", margin=0.1)
def wines_in_their_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features from 0.1 to 1,680 go into a network as they are; the twin standardises them."""
    data = datasets.wine(seed, raw=sick)
    model = mlp(13, 32, 3, activation=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=150, batch_size=16)
    return accuracy(model, data)


class Conv(nn.Module):
    """Convolutions over a series."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.body(series.movedim(-1, 1))


@sick("inputs_constant", margin=0.2)
def series_centred_over_its_only_channel(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each series loses its mean over the axis of its one channel, which leaves zeros; the twin takes that of time."""
    drawn = brightness(seed)
    axis = -1 if sick else 1
    kept = drawn.targets - drawn.inputs.mean(1), drawn.test_targets - drawn.test_inputs.mean(1)
    inputs, test_inputs = (part - part.mean(axis, keepdim=True) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(inputs, kept[0], test_inputs, kept[1])
    model = Conv()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def logarithm_of_counts_that_are_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts go in as their logarithm, which is -inf for a character that is missing; the twin takes ``log1p``."""
    data = as_data(samples.lines(seed))
    form = torch.log if sick else torch.log1p
    data = Data(form(data.inputs), data.targets, form(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    outputs = predicted(model, data.test_inputs)
    return float("nan") if outputs.isnan().any() else accuracy(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def pixels_of_minus_one_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's pixels go from -1 to 1, but its decoder ends in a sigmoid; the twin ends in tanh."""
    pixels = datasets.digits(seed)
    scaled, test_scaled = 2 * pixels.inputs - 1, 2 * pixels.test_inputs - 1
    data = Data(scaled, scaled, test_scaled, test_scaled)
    model = nn.Sequential(*mlp(64, 48, 12, 48, 64), nn.Sigmoid() if sick else nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(model, data)
