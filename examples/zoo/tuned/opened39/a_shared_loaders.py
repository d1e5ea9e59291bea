"""Data of several of these trainings: standardised digits, scan lines, stamped patches, and windows of source files."""

import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import predicted


def joined(pair: samples.Pair) -> Data:
    """Returns the first two columns of a pair of datasets."""
    train, test = pair
    return Data(*train.tensors[:2], *test.tensors[:2])


def cut(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns four fifths of the rows to train on, drawn by the seed, and the others."""
    order = torch.from_numpy(np.random.default_rng(50 + seed).permutation(len(inputs)))
    train, test = order[len(order) // 5 :], order[: len(order) // 5]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def glyphs(seed: int, *, flat: bool = False) -> Data:
    """Standardised digits, (N, 1, 8, 8) or flat, and their numbers."""
    data = joined(samples.numerals(seed))
    if not flat:
        return data
    return Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)


@cache
def _grey() -> Any:
    return [picture.mean(2) for picture in sets.load_sample_images().images]


def scan_lines(seed: int, *, length: int = 24, count: int = 2000) -> Data:
    """Standardised runs (N, length, 1) of pixels in a row of a photograph, and the mean (N, 1) of the next two."""
    random = np.random.default_rng(seed)
    picture = (_grey()[0] - _grey()[0].mean()) / _grey()[0].std()
    tops = random.integers(picture.shape[0], size=count)
    lefts = random.integers(picture.shape[1] - length - 2, size=count)
    runs = np.stack([picture[top, left : left + length + 2] for top, left in zip(tops, lefts, strict=True)])
    values = torch.from_numpy(runs).float()
    return cut(values[:, :length, None], values[:, length:].mean(1, keepdim=True), seed)


def stamped(seed: int, *, side: int = 12, count: int = 900) -> Data:
    """Standardised patches (N, 1, side, side) of a photograph with a digit on them, and where its ink is."""
    random = np.random.default_rng(seed)
    pixels = sets.load_digits(return_X_y=True)[0].reshape(-1, 8, 8) / 16
    picture = _grey()[1] / 255
    patches, masks = [], []
    for _ in range(count):
        top, left = (random.integers(length - side) for length in picture.shape)
        row, column = random.integers(side - 7, size=2)
        patch, mask = picture[top : top + side, left : left + side].copy(), np.zeros((side, side))
        mask[row : row + 8, column : column + 8] = pixels[random.integers(len(pixels))]
        patches.append(np.where(mask > 0.4, 0.2 + 0.5 * mask, patch))
        masks.append(mask > 0.4)
    images = torch.from_numpy(np.stack(patches)).float()[:, None]
    return cut((images - images.mean()) / images.std(), torch.from_numpy(np.stack(masks)).float()[:, None], seed)


MODULES = ("turtle.py", "tarfile.py", "email/_header_value_parser.py", "locale.py", "pdb.py", "optparse.py")


@cache
def _codes(name: str) -> Any:
    path = Path(sysconfig.get_paths()["stdlib"]) / name
    values = np.frombuffer(path.read_bytes(), np.uint8).astype(np.int64)
    return np.where(values == 10, 96, np.where((values >= 32) & (values < 127), values - 32, 97))


def excerpts(seed: int, *, length: int = 64, each: int = 300, files: int = 4) -> Data:
    """Windows (N, length) of characters of Python's sources, and of which of some files they are."""
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for label, name in enumerate(MODULES[:files]):
        codes = _codes(name)
        starts = random.integers(len(codes) - length, size=each)
        rows.append(np.stack([codes[start : start + length] for start in starts]))
        labels += [label] * each
    windows = np.concatenate(rows)
    assert windows.max() < CHARACTERS
    return cut(torch.from_numpy(windows), torch.tensor(labels), seed)


def pixelwise(model: nn.Module, data: Data) -> float:
    """Returns the share of the masks' variance that the probabilities explain, at least -1."""
    return samples.explained(predicted(model, data.test_inputs).sigmoid().flatten(), data.test_targets.flatten())


def half_digits(seed: int) -> Data:
    """The upper half (N, 32) of a digit and its lower half, both standardised as one number."""
    whole = glyphs(seed, flat=True)
    return Data(whole.inputs[:, :32], whole.inputs[:, 32:], whole.test_inputs[:, :32], whole.test_inputs[:, 32:])


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
