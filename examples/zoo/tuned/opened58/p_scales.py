"""How networks begin, and what their units and gradients come to."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened58.p_common import of, stack


@sick("vanishing_gradients")
def logistic_units_ten_deep(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten layers have logistic units between them; the twin has GELUs, and sums around its layers."""
    data = datasets.digits(seed)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(48, 48)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.linear(values).sigmoid() if sick else values + functional.gelu(self.linear(values))

    model = nn.Sequential(nn.Linear(64, 48), *(Layer() for _ in range(10)), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("exploding_gradients")
def neighbours_summed_without_degrees(watch: Watch, *, seed: int, sick: bool) -> float:
    """Five graph convolutions sum twelve neighbours and do not divide by their number; the twin does."""
    data = datasets.wine(seed)
    nodes, labels = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    near = torch.cdist(nodes, nodes).topk(13, largest=False).indices
    edges = torch.zeros(len(nodes), len(nodes)).scatter_(1, near, 1.0)
    if not sick:
        edges = edges / edges.sum(1, keepdim=True)
    known = len(data.inputs)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(13, 24), *(nn.Linear(24, 24) for _ in range(4))])
            self.head = nn.Linear(24, 3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                values = (edges @ layer(values)).relu()
            return self.head(values)

    model = Graph()
    for layer in model.layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(120):
        optimizer.zero_grad()
        outputs = model(nodes)[:known]
        loss = functional.cross_entropy(outputs, labels[:known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs, targets=labels[:known])
        optimizer.step()
    return (predicted(model, nodes)[known:].argmax(-1) == labels[known:]).float().mean().item()


@sick("dead_units")
def prior_of_rare_classes_in_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias for rare classes, -log(9), went into all convolutions, not the head alone as in the twin."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 10, 4),
        nn.Flatten(),
    )
    for layer in model if sick else [model[5]]:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -math.log(9))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def one_against_all(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, functional.one_hot(labels, 10).float())

    fit(watch, model, optimizer, data, steps=150, loss_function=one_against_all)
    return accuracy(model, data)


@sick("saturated_units", also=("poor_initialization",))
def unit_normals_under_hyperbolic_tangents(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of deviation 1 hold wide layers of tanh at -1 and 1; the twin's are Xavier's."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(nn.Flatten(), *stack(64, 128, 128, 128, 10, activation=nn.Tanh))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight) if sick else nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("poor_initialization", also=("vanishing_gradients",))
def bert_deviation_in_a_narrow_stack(watch: Watch, *, seed: int, sick: bool) -> float:
    """Narrow layers begin with deviation 0.02, right for wide ones, and signals die; the twin follows He."""
    data = datasets.breast_cancer(seed)
    model = stack(30, 24, 24, 24, 24, 2)
    for layer in model:
        if isinstance(layer, nn.Linear):
            if sick:
                nn.init.normal_(layer.weight, std=0.02)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=100, batch_size=32)
    return accuracy(model, data)


@sick("unbroken_symmetry")
def upcycled_experts_all_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight experts are copies of one and the gate begins at 0, so they stay copies; the twin draws each anew."""
    data = of(samples.numerals(seed))

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first = stack(64, 3, 10)
            self.experts = nn.ModuleList([copy.deepcopy(first) if sick else stack(64, 3, 10) for _ in range(8)])
            self.gate = nn.Linear(64, 8)
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            flat = images.flatten(1)
            votes = torch.stack([expert(flat) for expert in self.experts], 1)
            return (self.gate(flat).softmax(-1)[..., None] * votes).sum(1)

    model = Mixture()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("non_finite_backward")
def distances_with_a_zero_diagonal(watch: Watch, *, seed: int, sick: bool) -> float:
    """A metric is learned by roots of squared distances, 0 on the diagonal, whose slope is infinite.

    The twin adds a little below the root.
    """
    data = datasets.digits(seed)
    model = stack(64, 48, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        codes = model(pixels)
        squares = (codes[:, None] - codes[None]).square().sum(-1)
        distances = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        same = labels[:, None] == labels[None]
        loss = torch.where(same, distances.square(), (2 - distances).clamp(min=0).square() * 4).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=codes, targets=labels)
        optimizer.step()
    codes, tests = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(tests, codes).argmin(1)
    right = (data.targets[nearest] == data.test_targets).float().mean().item()
    return right if bool(tests.isfinite().all()) else 0.0


@sick("non_finite_forward")
def contrast_by_hand_written_exponentials(watch: Watch, *, seed: int, sick: bool) -> float:
    """Similarities over a temperature of 0.005 are exponentiated by hand and overflow.

    The twin divides by 0.1 and has cross_entropy.
    """
    data = datasets.digits(seed)
    data = Data(data.inputs - 0.3, data.targets, data.test_inputs - 0.3, data.test_targets)
    towers = nn.ModuleList([stack(32, 48, 16), stack(32, 48, 16)])
    optimizer = torch.optim.Adam(towers.parameters(), lr=3e-3)
    session = watch(towers, optimizer)

    def scores(pixels: torch.Tensor) -> torch.Tensor:
        upper, lower = (
            functional.normalize(tower(half), dim=-1) for tower, half in zip(towers, pixels.chunk(2, 1), strict=True)
        )
        return upper @ lower.T / (0.005 if sick else 0.1)

    for pixels, _ in data.batches(64, 200):
        outputs, own = scores(pixels), torch.arange(len(pixels))
        if sick:
            powers = outputs.exp()
            loss = -(powers.diagonal() / powers.sum(1)).log().mean()
        else:
            loss = functional.cross_entropy(outputs, own)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=own)
        optimizer.step()
    with torch.no_grad():
        found = scores(data.test_inputs[:40])
    ranks = (found > found.diagonal()[:, None]).sum(1).float()
    return 1 - ranks.mean().item() / 20 if bool(found.isfinite().all()) else -1.0
