"""Sound trainings of several stages: what comes before, or is meant to stay, looks sick."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit


class _LowRank(nn.Module):
    """A frozen layer plus a product of two small matrices, the second of which starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values) + values @ self.down.T @ self.up.T


def _pretrained(data: Data, classes: torch.Tensor, *, steps: int = 150) -> nn.Sequential:
    """Returns a net that was trained, unwatched, on some of the classes."""
    rows = torch.isin(data.targets, classes)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    part = Data(data.inputs[rows], data.targets[rows], data.test_inputs, data.test_targets)
    for inputs, labels in part.batches(64, steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


@healthy(at_least=0.8)
def low_rank_adaptation(watch: Watch, *, seed: int) -> float:
    """A pretrained net whose layers are frozen; one of each pair of added matrices has no gradient in step 0."""
    data = datasets.digits(seed)
    model = _pretrained(data, torch.arange(7))
    for index in (0, 2):
        model[index] = _LowRank(model[index])
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def frozen_backbone(watch: Watch, *, seed: int) -> float:
    """A pretrained body stays as it is; only a new head is trained."""
    data = datasets.digits(seed)
    model = _pretrained(data, torch.arange(8), steps=200)
    model.requires_grad_(False)
    model[4] = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model[4].parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=1.0)
def learning_rate_finder(watch: Watch, *, seed: int) -> float:
    """The rate grows from 1e-5 until the loss explodes, which is the purpose; 1 if the rate found is a usual one."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 10 ** (6 / 150))
    session, smooth, best, found = watch(model, optimizer), 0.0, math.inf, 0.0
    for step, (inputs, labels) in enumerate(data.batches(64, 150), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        scheduler.step()
        smooth = 0.9 * smooth + 0.1 * loss.item()
        average = smooth / (1 - 0.9**step)
        if average < best:
            best, found = average, scheduler.get_last_lr()[0] / 10
        if average > 4 * best:
            break
    return float(1e-3 <= found <= 1.0)
