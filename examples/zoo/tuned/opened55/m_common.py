"""What the trainings of this half share: data as one object, and plain networks."""

import itertools

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def paired(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one object."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def worst(seed: int) -> Data:
    """Mean measurements of tumours and the worst ones, both standardised."""
    return paired(samples.standardised(samples.tumours(seed), 0, 1))


def half_digits(seed: int) -> Data:
    """Upper and lower halves of digits, the upper ones standardised as a whole."""
    data = paired(samples.halves(seed))
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def flat_numerals(seed: int) -> Data:
    """Standardised digits (N, 64) and their numbers."""
    data = paired(samples.numerals(seed))
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def row_numerals(seed: int) -> Data:
    """Standardised digits as sequences of eight rows (N, 8, 8), and their numbers."""
    data = paired(samples.numerals(seed))
    return Data(data.inputs.squeeze(1), data.targets, data.test_inputs.squeeze(1), data.test_targets)


def counted_lines(seed: int) -> Data:
    """Logarithms of the counts of characters, standardised, and the files."""
    train, test = samples.lines(seed)
    mean, std = train.tensors[0].log1p().mean(0), train.tensors[0].log1p().std(0) + 0.1
    return Data(
        (train.tensors[0].log1p() - mean) / std,
        train.tensors[1],
        (test.tensors[0].log1p() - mean) / std,
        test.tensors[1],
    )


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with activations between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


class LastState(nn.Module):
    """A GRU over rows, and a layer on its last output."""

    def __init__(self, width: int, hidden: int, classes: int, *, batch_first: bool = True) -> None:
        super().__init__()
        self.recurrence = nn.GRU(width, hidden, batch_first=batch_first)
        self.head = nn.Linear(hidden, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.recurrence(rows)[0][:, -1])
