"""What several modules train on: columns of a photograph as series, and how well two classes are told apart."""

from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets

from examples.zoo.samples import Pair, split


def series(seed: int, *, length: int = 24, ahead: int = 6, count: int = 1000) -> Pair:
    """Windows (N, length, 1) of a photograph's rows from left to right, around 0, and what follows (N, ahead)."""
    random = np.random.default_rng(seed)
    rows = random.integers(photograph().shape[0], size=count)
    columns = random.integers(photograph().shape[1] - length - ahead, size=count)
    windows = np.stack([photograph()[r, c : c + length + ahead] for r, c in zip(rows, columns, strict=True)])
    values = (torch.from_numpy(windows).float() - 128) / 64
    return split(seed, values[:, :length, None], values[:, length:])


def balanced(found: torch.Tensor, true: torch.Tensor) -> float:
    """Returns the mean of the shares of positives and of negatives that are found."""
    found, true = found.flatten() > 0, true.flatten() > 0.5
    return ((found[true].float().mean() + (~found[~true]).float().mean()) / 2).item()


@cache
def photograph() -> Any:
    """Returns a grey photograph as bytes, (427, 640)."""
    return sets.load_sample_images().images[1].mean(2)
