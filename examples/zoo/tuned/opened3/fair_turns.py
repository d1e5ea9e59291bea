"""Sound trainings whose data, task or start is out of the ordinary."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parameters_to_vector

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit

from . import material
from .material import descend


@healthy(at_least=0.85)
def easy_rows_come_first(watch: Watch, *, seed: int) -> float:
    """A curriculum: rows near their class mean come first, then more: the data changes while the loss falls."""
    data = datasets.digits(seed)
    centres = torch.stack([data.inputs[data.targets == one].mean(0) for one in range(10)])
    order = (data.inputs - centres[data.targets]).norm(dim=1).argsort()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for step in range(280):
            reach = int(len(order) * min(1.0, 0.4 + step / 250))
            rows = order[torch.randint(reach, (64,))]
            yield data.inputs[rows], data.targets[rows]

    net = material.mlp(64, 48, 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in batches():
        out = net(x)
        descend(session, optimizer, F.cross_entropy(out, y), inputs=x, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def an_old_task_is_remembered(watch: Watch, *, seed: int) -> float:
    """Weights are held near those of a first task by a quadratic penalty: its loss is zero at the start and grows."""
    data = datasets.digits(seed)
    net = material.mlp(64, 48, 10)
    first = torch.optim.Adam(net.parameters(), lr=4e-3)
    for x, y in data.batches(64, 60):
        first.zero_grad()
        F.cross_entropy(net(x), y).backward()
        first.step()
    anchor = parameters_to_vector(net.parameters()).detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(64, 200):
        seen = x + 0.2 * torch.randn_like(x)
        out = net(seen)
        held = (parameters_to_vector(net.parameters()) - anchor).square().sum()
        descend(session, optimizer, F.cross_entropy(out, y) + 1e-3 * held, inputs=seen, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.85)
def two_tasks_that_take_turns(watch: Watch, *, seed: int) -> float:
    """Class in one step, parity in the next, by two heads on one body: each head has no gradient every other step."""
    data = datasets.digits(seed)
    net = nn.ModuleDict({"body": material.mlp(64, 48, 32), "kind": nn.Linear(32, 10), "odd": nn.Linear(32, 2)})
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(64, 360)):
        name, asked = ("kind", y) if step % 2 == 0 else ("odd", y % 2)
        out = net[name](net["body"](x).relu())
        descend(session, optimizer, F.cross_entropy(out, asked), inputs=x, outputs=out, targets=asked)
    with torch.no_grad():
        return material.hit_rate(net["kind"](net["body"](data.test_inputs).relu()), data.test_targets)


@healthy(at_least=0.85)
def started_near_the_end(watch: Watch, *, seed: int) -> float:
    """A training goes on from a checkpoint of model and optimizer: the loss is small from its first step."""
    data = datasets.digits(seed)
    old = material.mlp(64, 48, 10)
    first = torch.optim.Adam(old.parameters(), lr=4e-3)
    for x, y in data.batches(64, 130):
        first.zero_grad()
        F.cross_entropy(old(x), y).backward()
        first.step()
    net = material.mlp(64, 48, 10)
    net.load_state_dict(old.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    optimizer.load_state_dict(first.state_dict())
    fit(watch, net, optimizer, data, steps=110, batch_size=64, validate_every=22)
    return accuracy(net, data)


@healthy(at_least=0.8)
def many_units_dropped_from_a_wide_net(watch: Watch, *, seed: int) -> float:
    """Half of 160 units are dropped in training, none in validation, which is in eval mode as it should be."""
    data = material.brackets(seed)
    net = nn.Sequential(
        nn.Embedding(3, 12), nn.Flatten(), nn.Linear(144, 160), nn.ReLU(), nn.Dropout(0.5), nn.Linear(160, 2)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    fit(watch, net, optimizer, data, steps=300, batch_size=32, validate_every=30)
    return accuracy(net, data)
