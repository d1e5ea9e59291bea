"""What several modules train on: hums of machines, rivers after rain, customers, and loops."""

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy

PITCHES = (3.0, 4.5, 6.5, 9.0)


def hums(seed: int, *, count: int = 1000, length: int = 48, noise: float = 0.7) -> Data:
    """Windows (count, 1, length) of a noisy hum at any phase, and at which of four pitches the machine hums."""
    random = torch.Generator().manual_seed(100 + seed)
    labels = torch.randint(len(PITCHES), (count,), generator=random)
    pitch = torch.tensor(PITCHES)[labels][:, None] * (1 + 0.05 * torch.randn(count, 1, generator=random))
    phase = 6.2832 * torch.rand(count, 1, generator=random)
    waves = (6.2832 * pitch * torch.arange(length) / length + phase).sin() * 1.3
    windows = (waves + noise * torch.randn(count, length, generator=random))[:, None]
    return parted(windows, labels)


def rivers(seed: int, *, count: int = 900, days: int = 20) -> Data:
    """Rain (count, days, 2) of two valleys and the river's flow (count, 1) after it, in deviations from its mean."""
    random = torch.Generator().manual_seed(200 + seed)
    rain = torch.rand(count, days, 2, generator=random) ** 3 * (torch.rand(count, 1, 2, generator=random) + 0.3)
    kept = torch.stack([0.75 ** torch.arange(days - 1, -1, -1), 0.9 ** torch.arange(days - 1, -1, -1)], 1)
    stored = (rain * kept).sum(1)
    flow = stored[:, :1] + (stored[:, 1:] - 0.8).clamp(min=0) * 2 + 0.03 * torch.randn(count, 1, generator=random)
    return parted((rain - rain.mean()) / rain.std(), (flow - flow.mean()) / flow.std())


def customers(seed: int, *, count: int = 1200, columns: int = 12, share: float = 0.5) -> Data:
    """Standardised columns (count, columns) of customers, and whether they leave, which a share of them does."""
    random = torch.Generator().manual_seed(300 + seed)
    rows = torch.randn(count, columns, generator=random)
    score = 1.5 * rows[:, 0] * rows[:, 1] + rows[:, 2] - rows[:, 3].abs() + rows[:, 4]
    score = score + 0.3 * torch.randn(count, generator=random)
    return parted(rows, (score > score.quantile(1 - share)).long())


def parted(inputs: torch.Tensor, targets: torch.Tensor) -> Data:
    """Returns the first three quarters to train on, and the others to judge by."""
    first = len(inputs) * 3 // 4
    return Data(inputs[:first], targets[:first], inputs[first:], targets[first:])


def listener(*, width: int = 16, classes: int = len(PITCHES)) -> nn.Sequential:
    """Returns a net of two convolutions that tells hums (N, 1, length) apart."""
    return nn.Sequential(
        nn.Conv1d(1, width, 7, padding=3),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(width, width, 5, padding=2),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(width, classes),
    )


def labelled(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]],
    *,
    before_step: Callable[[], object] | None = None,
) -> float:
    """Trains a classifier on the batches, and returns its accuracy."""
    session = watch(model, optimizer)
    for inputs, labels in batches:
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        if before_step is not None:
            before_step()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
