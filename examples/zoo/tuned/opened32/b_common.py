"""Data and small helpers of this half."""

import pydoc_data.topics
import re
from functools import cache

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns three quarters of the rows to train on, and the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def colours(seed: int, *, side: int = 8, count: int = 900) -> torch.Tensor:
    """Returns patches (count, 3, side, side) of two photographs, from 0 to 255."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        picture = _pictures()[random.integers(2)]
        top, left = (random.integers(length - side) for length in picture.shape[:2])
        found.append(picture[top : top + side, left : left + side])
    return torch.from_numpy(np.stack(found)).float().movedim(-1, 1).contiguous()


WORDS_LENGTH = 10
LETTERS = 27


def words(seed: int, *, count: int = 1500) -> Data:
    """Words of Python's help as letters (N, 10), padded with 0; targets: where its vowels are (N, 10)."""
    chosen = np.random.default_rng(seed).permutation(_words())[:count]
    codes = torch.tensor([[ord(letter) - 96 for letter in word.ljust(WORDS_LENGTH, "`")] for word in chosen])
    return parted(codes, codes, seed)


def prose(seed: int, *, length: int, count: int = 1200) -> Data:
    """Windows of the letters and blanks of Python's help as codes (count, length), and the ones that follow."""
    starts = np.random.default_rng(seed).integers(len(_prose()) - length - 1, size=count)
    windows = torch.from_numpy(np.stack([_prose()[start : start + length + 1] for start in starts]))
    return parted(windows[:, :-1].contiguous(), windows[:, 1:].contiguous(), seed)


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the variance of all held-out targets that the model explains; -1 at least."""
    outputs = predicted(model, data.test_inputs)
    error = (outputs - data.test_targets).square().mean()
    return (1 - error / (data.test_targets - data.test_targets.mean(0)).square().mean()).clamp(min=-1).item()


def overlap(model: nn.Module, data: Data) -> float:
    """Returns Dice's coefficient of the pixels whose logit is above 0 with the held-out masks."""
    found, truth = predicted(model, data.test_inputs) > 0, data.test_targets > 0.5
    return (2 * (found & truth).sum() / (found.sum() + truth.sum()).clamp(min=1)).item()


@cache
def _pictures() -> list[np.ndarray]:
    return list(sets.load_sample_images().images)


@cache
def _text() -> str:
    return " ".join(pydoc_data.topics.topics.values()).lower()


@cache
def _words() -> list[str]:
    return sorted(set(re.findall(r"\b[a-z]{4,10}\b", _text())))


@cache
def _prose() -> np.ndarray:
    text = re.sub(r"[^a-z]+", " ", _text())
    return np.array([0 if letter == " " else ord(letter) - 96 for letter in text], dtype=np.int64)


def picture(side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns places (side², 2) of a photograph from -1 to 1, and their standardised colours (side², 3)."""
    whole = torch.from_numpy(_pictures()[0].copy()).float().movedim(-1, 0)[None]
    small = nn.functional.adaptive_avg_pool2d(whole, side)[0].flatten(1).T
    steps = torch.linspace(-1, 1, side)
    return torch.cartesian_prod(steps, steps), (small - small.mean(0)) / small.std(0)
