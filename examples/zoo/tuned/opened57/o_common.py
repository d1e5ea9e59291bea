"""What several cases of this half share: windows of photographs' rows, and pairs as data."""

import torch

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data


def as_data(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one."""
    train, test = pair
    return Data(train.tensors[0], train.tensors[1], test.tensors[0], test.tensors[1])


def rows(seed: int, *, length: int = 16, count: int = 1800) -> Data:
    """Standardised brightness (N, length) along a row of a photograph, and the next pixel's (N, 1)."""
    pixels = datasets.patches(seed, size=length + 1, count=count).view(count, length + 1, length + 1)[:, 0]
    pixels = (pixels - pixels.mean()) / pixels.std()
    cut = count * 3 // 4
    return Data(pixels[:cut, :-1], pixels[:cut, -1:], pixels[cut:, :-1], pixels[cut:, -1:])


def reconstructed(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of the targets' variance that the outputs explain."""
    return samples.explained(outputs, targets)
