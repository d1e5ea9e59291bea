"""Units, depths, and rates."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened38.b_common import explained, matched, placed
from examples.zoo.tuned.opened38.b_steps import localiser


@sick("dead_units", also=("inputs_constant",), margin=0.3)
def a_relu_in_front_of_decibels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Blocks have their ReLU in front, and the first one gets decibels, all below 0; the twin begins with a layer."""
    drawn = datasets.digits(seed)
    inputs, test = (torch.log10(part * 0.98 + 0.01) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(inputs, drawn.targets, test, drawn.test_targets)
    layers: list[nn.Module] = [nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)]
    layers += [nn.ReLU(), nn.Linear(32, 10)]
    model = nn.Sequential(*(layers if sick else layers[1:]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick(
    "exploding_gradients", also=("poor_initialization", "inputs_not_normalized", "learning_rate_too_high"), margin=0.1
)
def neighbours_added_five_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph network adds neighbours in five layers, ten times as much in each; the twin divides by their number."""
    drawn = datasets.digits(seed)
    pixels, labels = torch.cat([drawn.inputs, drawn.test_inputs])[:600], torch.cat([drawn.targets, drawn.test_targets])
    nodes, labels = (pixels - pixels.mean()) / pixels.std(), labels[:600]
    near = torch.cdist(nodes, nodes).topk(9, largest=False).indices
    edges = torch.zeros(600, 600).scatter_(1, near, 1.0)
    edges = edges.maximum(edges.T)
    if not sick:
        edges = edges / edges.sum(1, keepdim=True)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 24), *(nn.Linear(24, 24) for _ in range(4))])
            self.head = nn.Linear(24, 10)

        def forward(self, nodes: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                nodes = functional.leaky_relu(edges @ layer(nodes), 0.1)
            return self.head(nodes)

    model = Graph()
    for layer in model.layers:
        nn.init.kaiming_normal_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    known = torch.rand(600, generator=torch.Generator().manual_seed(seed)) < 0.4
    for _ in range(150):
        optimizer.zero_grad()
        outputs = model(nodes)
        loss = functional.cross_entropy(outputs[known], labels[known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs[known], targets=labels[known])
        optimizer.step()
    return (predicted(model, nodes).argmax(1) == labels)[~known].float().mean().item()


@sick("vanishing_gradients", also=("learning_rate_too_low", "poor_initialization"), margin=0.1)
def a_highway_without_its_carry(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gates that begin near 0 multiply each of eight layers, and what they hold back is lost; the twin carries it."""
    data = datasets.breast_cancer(seed)

    class Highway(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(30, 32), nn.Linear(32, 2)
            self.layers, self.gates = (nn.ModuleList(nn.Linear(32, 32) for _ in range(8)) for _ in range(2))
            for gate in self.gates:
                nn.init.constant_(gate.bias, -2.0)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.first(rows).tanh()
            for layer, gate in zip(self.layers, self.gates, strict=True):
                opened = gate(hidden).sigmoid()
                carried = 0 if sick else (1 - opened) * hidden
                hidden = opened * layer(hidden).relu() + carried
            return self.head(hidden)

    model = Highway()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def adadelta_at_a_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Adadelta`` has Adam's 0.001 where its own default is 1; the twin leaves the default."""
    train, test = samples.numerals(seed)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(192, 10)
    )
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1e-3 if sick else 1.0)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return matched(model, data)


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients", "non_finite_forward"), margin=0.1)
def the_linear_rule_upside_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rate for batches of 256 is multiplied by 256 / 16, not by 16 / 256; the twin scales it the right way."""
    drawn = placed(seed)
    data = Data(drawn.inputs, (drawn.targets - 3) / 2, drawn.test_inputs, (drawn.test_targets - 3) / 2)
    model = localiser()
    base, size = 0.3, 16
    rate = base * 256 / size if sick else base * size / 256
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    fit(watch, model, optimizer, data, steps=350, batch_size=size, loss_function=functional.mse_loss)
    return explained(model, data)
