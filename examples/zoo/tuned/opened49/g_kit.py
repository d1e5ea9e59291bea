"""What several cases of this letter share: data in the form that a network wants, and small networks."""

import itertools
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.datasets import Data


def table(pair: samples.Pair) -> Data:
    """Returns a pair of datasets with two columns each as data with batches."""
    return Data(*pair[0].tensors, *pair[1].tensors)


def pictures(seed: int) -> Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1, and their numbers."""
    return table(samples.numerals(seed))


def flat(seed: int) -> Data:
    """Digits (N, 64) with mean 0 and deviation 1, and their numbers."""
    data = pictures(seed)
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


def scans(seed: int) -> Data:
    """Digits (N, 8, 8), a row at a time, and their numbers."""
    data = pictures(seed)
    return Data(data.inputs.squeeze(1), data.targets, data.test_inputs.squeeze(1), data.test_targets)


def counted(seed: int) -> Data:
    """Digits (N, 64), standardised, and their numbers (N, 1) as standardised amounts."""
    data = flat(seed)
    mean, std = 4.5, 2.87
    return Data(
        data.inputs, (data.targets[:, None] - mean) / std, data.test_inputs, (data.test_targets[:, None] - mean) / std
    )


def spelled(seed: int) -> Data:
    """Names of letters as codes (N, 24) that are padded with 0, and their scripts."""
    return table(samples.names(seed))


def worst(seed: int) -> Data:
    """Ten standardised measurements of a tumour, and its ten worst ones, standardised."""
    return table(samples.standardised(samples.tumours(seed), 0, 1))


def cellar(seed: int) -> Data:
    """Twelve standardised measurements of a wine, and its proline (N, 1), standardised."""
    return table(samples.standardised(samples.proline(seed), 0, 1))


def lower(seed: int) -> Data:
    """The upper halves of digits, and the lower ones, from 0 to 1."""
    return table(samples.halves(seed))


def loader(data: Data, size: int, *, shuffle: bool = True) -> DataLoader:
    """Returns a loader of the training rows."""
    return DataLoader(TensorDataset(data.inputs, data.targets), batch_size=size, shuffle=shuffle)


def forever(batches: DataLoader, steps: int) -> Iterator[list[torch.Tensor]]:
    """Yields that many batches, an epoch after the other."""
    return itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps)


def layers(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with activations between them."""
    found: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        found += [nn.Linear(before, after), activation()]
    return nn.Sequential(*found[:-1])


def small_convnet(classes: int = 10) -> nn.Sequential:
    """Returns a network for digits (N, 1, 8, 8)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, classes),
    )  # fmt: skip
