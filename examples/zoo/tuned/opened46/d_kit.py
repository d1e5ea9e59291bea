"""What several cases of this letter share: data in a form of their own, and small loops."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.cases import Watch
from examples.zoo.datasets import Data

Step = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def as_data(pair: samples.Pair) -> Data:
    """Returns a pair of datasets with two columns each as data with batches."""
    return Data(*pair[0].tensors, *pair[1].tensors)


def scripts(seed: int) -> Data:
    """Names of letters as codes (N, 24), and their scripts."""
    return as_data(samples.names(seed))


def faces(seed: int) -> Data:
    """Digits (N, 1, 8, 8), standardised, and their numbers."""
    return as_data(samples.numerals(seed))


def rows_of_digits(seed: int) -> Data:
    """Digits (N, 8, 8) as eight rows, standardised, and their numbers."""
    data = faces(seed)
    return Data(data.inputs.squeeze(1), data.targets, data.test_inputs.squeeze(1), data.test_targets)


def lower_halves(seed: int) -> Data:
    """The upper halves of digits, standardised, and the lower ones from 0 to 1."""
    data = as_data(samples.halves(seed))
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def train(
    watch: Watch, model: nn.Module, optimizer: Any, data: Data, step: Step, *, steps: int, size: int = 64
) -> None:
    """Trains in a loop in which ``step`` returns the loss and the outputs."""
    session = watch(model, optimizer)
    for inputs, targets in data.batches(size, steps):
        loss, outputs = step(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()


def perceptron(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with activations between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


class Reader(nn.Module):
    """A recurrence over a name's letters, whose states are averaged."""

    def __init__(self, width: int = 32, classes: int = 8) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        self.recurrence = nn.GRU(width, width, batch_first=True)
        self.answer = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        states, _ = self.recurrence(self.letters(codes))
        return self.answer(states.mean(1))
