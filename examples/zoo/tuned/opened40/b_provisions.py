"""Data that several of these trainings share: series of a photograph, digits as sequences, names, and tables."""

from functools import cache

import numpy as np
import torch
from sklearn import datasets as sets

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data


def paired(pair: samples.Pair) -> Data:
    """Returns the two parts of a pair as the data of ordinary loops."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


@cache
def _rows() -> torch.Tensor:
    grey = np.concatenate([picture.mean(2) for picture in sets.load_sample_images().images])
    brightness = torch.from_numpy(grey).float()
    return (brightness - brightness.mean()) / brightness.std()


def series(seed: int, *, length: int = 20, count: int = 1600) -> Data:
    """Windows (N, length, 1) of a photograph's lines, standardised, and the mean of the next three values (N, 1)."""
    rows = _rows()
    random = torch.Generator().manual_seed(seed)
    which = torch.randint(len(rows), (count, 1), generator=random)
    starts = torch.randint(rows.shape[1] - length - 3, (count, 1), generator=random)
    windows = rows[which, starts + torch.arange(length + 3)]
    parts = samples.split(seed, windows[:, :length, None].contiguous(), windows[:, length:].mean(1, keepdim=True))
    return paired(parts)


def strokes(seed: int) -> Data:
    """Digits as sequences (N, 8, 8) of standardised lines, and their numbers."""
    data = paired(samples.numerals(seed))
    return Data(data.inputs[:, 0], data.targets, data.test_inputs[:, 0], data.test_targets)


def spelt(seed: int) -> Data:
    """Names of letters (N, 24) as codes padded with 0, and which of eight scripts they are of."""
    return paired(samples.names(seed))


def worst(seed: int) -> Data:
    """Ten mean measurements of tumours, standardised, and the ten worst ones, standardised too."""
    return paired(samples.standardised(samples.tumours(seed), 0, 1))


def vintages(seed: int) -> Data:
    """Twelve measurements of wines, standardised, and their proline (N, 1), standardised too."""
    return paired(samples.standardised(samples.proline(seed), 0, 1))


def styles(seed: int) -> Data:
    """Shares (N, 96) of characters in lines of Python, standardised, and of which of six files they are."""
    return paired(samples.standardised(samples.lines(seed), 0))


def completions(seed: int) -> Data:
    """Upper halves of digits (N, 32), standardised, and their lower halves, standardised by one mean and deviation."""
    train, test = samples.halves(seed)
    pixels = torch.cat(train.tensors, 1)
    mean, std = pixels.mean(), pixels.std()
    return Data(*((part - mean) / std for part in (*train.tensors, *test.tensors)))


def benign(seed: int) -> Data:
    """Thirty standardised measurements of tumours, and 1.0 for a benign one."""
    data = datasets.breast_cancer(seed)
    return Data(data.inputs, data.targets.float(), data.test_inputs, data.test_targets.float())
