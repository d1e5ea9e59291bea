"""What the cases of this letter share: digits as rows of numbers, blocks, and how good a reconstruction is."""

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def of_pair(pair: samples.Pair) -> Data:
    """Returns two datasets of two columns as one."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def flat_numerals(seed: int) -> Data:
    """Digits (N, 64) with mean 0 and deviation 1."""
    data = of_pair(samples.numerals(seed))
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def rows_of_numerals(seed: int) -> Data:
    """Digits (N, 8, 8) as eight steps of eight pixels."""
    data = of_pair(samples.numerals(seed))
    return Data(data.inputs.squeeze(1), data.targets, data.test_inputs.squeeze(1), data.test_targets)


def themselves(data: Data) -> Data:
    """Returns inputs that are their own targets."""
    return Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)


def share_explained(model: nn.Module, data: Data) -> float:
    """Returns the R² of all columns of the held-out targets."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def neighbours(train: torch.Tensor, labels: torch.Tensor, test: torch.Tensor, test_labels: torch.Tensor) -> float:
    """Returns how often the nearest training vector has the label."""
    return (labels[torch.cdist(test, train).argmin(1)] == test_labels).float().mean().item()


class LastState(nn.Module):
    """A recurrent net, and a layer on its last state."""

    def __init__(self, net: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.net, self.head = net, nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.net(rows)[0][:, -1])
