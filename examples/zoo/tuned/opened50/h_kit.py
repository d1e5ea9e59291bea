"""What the cases of this letter share: data in other forms, and small loops."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch
from examples.zoo.datasets import Data

Objective = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def paired(pair: samples.Pair) -> Data:
    """Returns a pair of datasets of two columns as data with batches."""
    return Data(*pair[0].tensors, *pair[1].tensors)


def centred_digits(seed: int) -> Data:
    """Flat digits (N, 64), whose pixels have mean 0 and deviation 1 as a whole."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def striped_digits(seed: int) -> Data:
    """Digits (N, 8, 8) as sequences of rows."""
    data = centred_digits(seed)
    return Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)


def pictures(seed: int) -> Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1."""
    return paired(samples.numerals(seed))


def reconstruction(seed: int) -> Data:
    """Digits from 0 to 1 that are their own targets."""
    data = datasets.digits(seed)
    return Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)


def dense(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with an activation after each but the last."""
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(itertools.pairwise(sizes)):
        layers += [activation()] if index else []
        layers.append(nn.Linear(before, after))
    return nn.Sequential(*layers)


def learn(
    watch: Watch, model: nn.Module, optimizer: Any, data: Data, objective: Objective, *, steps: int, size: int = 64
) -> None:
    """Trains on an objective that returns the loss and the outputs."""
    session = watch(model, optimizer)
    for inputs, targets in data.batches(size, steps):
        optimizer.zero_grad()
        loss, outputs = objective(inputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()


def forever(loader: Any) -> Iterator[Any]:
    """Yields a loader's batches, epoch after epoch."""
    while True:
        yield from loader


class NameReader(nn.Module):
    """A GRU over a name's letters, whose states are averaged."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.gru(self.embedding(codes))[0].mean(1))


def balanced_accuracy(guessed: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean over two classes of the share that is found."""
    return sum((guessed[labels == one] == one).float().mean().item() for one in (0, 1)) / 2
