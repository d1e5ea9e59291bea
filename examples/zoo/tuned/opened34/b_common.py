"""Data and models that several of these trainings share."""

from functools import cache

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns three quarters of the rows to train on, drawn by the seed, and the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@cache
def _brightness() -> np.ndarray:
    return np.concatenate([picture.mean(2)[:420, :640] for picture in sets.load_sample_images().images])


def strips(seed: int, *, length: int = 16, count: int = 1600, ahead: int = 4) -> Data:
    """Windows (N, length) of rows of two photographs, standardised, and the pixels (N, ahead) that follow."""
    random, light = np.random.default_rng(seed), _brightness()
    rows = random.integers(len(light), size=count)
    starts = random.integers(640 - 2 * (length + ahead), size=count)
    found = np.stack(
        [light[row, start : start + 2 * (length + ahead) : 2] for row, start in zip(rows, starts, strict=True)]
    )
    values = torch.from_numpy(found).float()
    values = (values - light.mean()) / light.std()
    return parted(values[:, :length], values[:, length:].contiguous(), seed)


def squares(seed: int, *, side: int = 8, count: int = 1600) -> torch.Tensor:
    """Grey patches (N, 1, side, side) of two photographs at half their size, with mean 0 and deviation 1."""
    random, light = np.random.default_rng(seed), _brightness()[::2, ::2]
    tops, lefts = (random.integers(length - side, size=count) for length in light.shape)
    found = np.stack([light[top : top + side, left : left + side] for top, left in zip(tops, lefts, strict=True)])
    values = torch.from_numpy(found).float()[:, None]
    return (values - values.mean()) / values.std()


def strokes(seed: int, *, noise: float = 0.35) -> Data:
    """Digits (N, 1, 8, 8) under noise, standardised, and where they are dark (N, 1, 8, 8)."""
    pixels = torch.from_numpy(sets.load_digits().images).float()[:, None] / 16
    masks = (pixels > 0.5).float()
    spoilt = pixels + noise * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed))
    return parted((spoilt - spoilt.mean()) / spoilt.std(), masks, seed)


def overlap(model: nn.Module, data: Data) -> float:
    """Returns the area where held-out masks and the found ones are both 1, as a share of that where one of them is."""
    found, true = predicted(model, data.test_inputs) > 0, data.test_targets > 0.5
    return ((found & true).sum() / (found | true).sum()).item()


def scripts(seed: int) -> Data:
    """Names of letters as codes (N, 24) padded with 0, and to which of eight scripts each belongs."""
    train, test = samples.names(seed)
    return Data(*train.tensors, *test.tensors)


class Speller(nn.Module):
    """Reads names with a GRU, and takes the mean of its states over all places that are not padded."""

    def __init__(self, width: int = 48, classes: int = 8, dropout: float = 0.3) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.reader = nn.GRU(24, width, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(width, classes))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, classes)."""
        states, _ = self.reader(self.letters(names))
        there = (names > 0).float()[..., None]
        return self.head((states * there).sum(1) / there.sum(1).clamp(min=1))


def masker(width: int = 16) -> nn.Sequential:
    """Returns a small network of convolutions that puts out one logit for each pixel."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )
