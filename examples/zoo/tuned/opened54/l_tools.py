"""Data and small pieces that these cases share."""

import torch
from torch import nn

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def data_of(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one of rows to train on and others to judge by."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def numerals(seed: int, *, flat: bool = False) -> Data:
    """Standardised digits."""
    data = data_of(samples.numerals(seed))
    if not flat:
        return data
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def halves(seed: int) -> Data:
    """Upper and lower halves of digits, both standardised by a common mean and deviation."""
    data = data_of(samples.halves(seed))
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data(*((part - mean) / std for part in (data.inputs, data.targets, data.test_inputs, data.test_targets)))


def brightness(seed: int, *, pictures: int = 200) -> Data:
    """Pairs (N, 2) of a picture's and a pixel's numbers, and that pixel's standardised brightness (N,)."""
    drawn = datasets.digits(0)
    pixels = drawn.inputs[:pictures]
    pixels = (pixels - pixels.mean()) / pixels.std()
    where = torch.cartesian_prod(torch.arange(pictures), torch.arange(64))
    train, test = samples.split(seed, where, pixels.flatten())
    return Data(*train.tensors, *test.tensors)


def bands(data: Data) -> Data:
    """Returns flat digits as sequences (N, 8, 8) of rows."""
    return Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    outputs = predicted(model, data.test_inputs)
    return samples.explained(outputs, data.test_targets.view_as(outputs))
