"""What the modules of this writer share: pairs as data, and plain stacks of layers."""

from itertools import pairwise
from typing import Any

from torch import nn

from examples.zoo.datasets import Data


def of(pair: Any) -> Data:
    """Returns a pair of datasets as data."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def stack(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these sizes with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])
