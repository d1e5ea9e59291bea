"""Batch norms whose statistics are computed anew, or are kept as they were."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


def _convolutions() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(32, 10),
    )


@healthy(at_least=0.8)
def precise_batch_norm(watch: Watch, *, seed: int) -> float:
    """Each epoch ends with a pass in training mode without gradients, which sets statistics from the training rows."""
    data = datasets.digits(seed, images=True)
    model = _convolutions()
    norms = [layer for layer in model if isinstance(layer, nn.BatchNorm2d)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    reached = 0.0
    for _ in range(6):
        for inputs, labels in data.batches(64, -(-len(data.inputs) // 64)):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        with torch.no_grad():
            for rows in torch.randperm(len(data.inputs)).split(200):
                model(data.inputs[rows])
        for norm in norms:
            norm.momentum = 0.1
        reached = accuracy(model, data)
    return reached


@healthy(at_least=0.75)
def fine_tuned_in_eval_mode(watch: Watch, *, seed: int) -> float:
    """A body that was trained on seven digits learns all ten in eval mode: its batch norms keep their statistics."""
    data = datasets.digits(seed, images=True)
    model = _convolutions()
    known = (data.targets < 7).nonzero()[:, 0]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(6):
        for rows in known[torch.randperm(len(known))].split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(data.inputs[rows]), data.targets[rows]).backward()
            optimizer.step()
    model.eval()
    model[-1] = nn.Linear(32, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(16, 340):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
