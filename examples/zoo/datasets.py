"""Real data without a download: scikit-learn's sets, its photographs, and the text of Python's own sources."""

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets


@dataclass(frozen=True)
class Data:
    """Samples to train on, and others to judge by."""

    inputs: torch.Tensor
    targets: torch.Tensor
    test_inputs: torch.Tensor
    test_targets: torch.Tensor

    def batches(self, size: int, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yields that many batches, shuffled anew in each epoch, whose last batch may be smaller."""
        while steps > 0:
            for batch in torch.randperm(len(self.inputs)).split(size)[:steps]:
                yield self.inputs[batch], self.targets[batch]
                steps -= 1


def digits(seed: int, *, images: bool = False) -> Data:
    """1,797 digits of 8×8 pixels from 0 to 1, flat or (1, 8, 8); ten classes."""
    pixels, labels = _loaded("load_digits")
    data = _split(torch.from_numpy(pixels).float() / 16, torch.from_numpy(labels), seed)
    if not images:
        return data
    return Data(data.inputs.view(-1, 1, 8, 8), data.targets, data.test_inputs.view(-1, 1, 8, 8), data.test_targets)


def wine(seed: int, *, raw: bool = False) -> Data:
    """178 wines, 13 features, three classes; ``raw`` leaves the features as they were measured."""
    return _table("load_wine", seed, raw)


def breast_cancer(seed: int, *, raw: bool = False) -> Data:
    """569 tumours, 30 features, two classes; ``raw`` leaves the features as they were measured."""
    return _table("load_breast_cancer", seed, raw)


def iris(seed: int, *, raw: bool = False) -> Data:
    """150 flowers, 4 features, three classes; ``raw`` leaves the features as they were measured."""
    return _table("load_iris", seed, raw)


def diabetes(seed: int, *, raw_targets: bool = False) -> Data:
    """442 patients, 10 standardised features; targets (N, 1) standardised, or from 25 to 346 as they were measured."""
    data = _table("load_diabetes", seed, raw=False)
    targets, test_targets = data.targets.float()[:, None], data.test_targets.float()[:, None]
    if not raw_targets:
        mean, std = targets.mean(), targets.std()
        targets, test_targets = (targets - mean) / std, (test_targets - mean) / std
    return Data(data.inputs, targets, data.test_inputs, test_targets)


def patches(seed: int, *, size: int = 8, count: int = 2000) -> torch.Tensor:
    """Grey patches (count, size * size) of two photographs, from 0 to 255."""
    random = np.random.default_rng(seed)
    pictures = _photographs()
    found = []
    for _ in range(count):
        picture = pictures[random.integers(len(pictures))]
        top, left = (random.integers(length - size) for length in picture.shape)
        found.append(picture[top : top + size, left : left + size])
    return torch.from_numpy(np.stack(found)).float().view(count, -1)


CHARACTERS = 98
"""The codes of a text's characters are from 0 up to this one: the printable ones, line ends, and all others."""


def text(seed: int, *, length: int, count: int = 1500) -> Data:
    """Windows (count, length) of Python's sources as codes of characters; the targets are the next characters."""
    codes = _sources()
    starts = np.random.default_rng(seed).integers(len(codes) - length - 1, size=count)
    windows = torch.from_numpy(np.stack([codes[start : start + length + 1] for start in starts]))
    return _split(windows[:, :-1].contiguous(), windows[:, 1:].contiguous(), seed)


@cache
def _loaded(name: str) -> tuple[Any, Any]:
    return getattr(sets, name)(return_X_y=True)


@cache
def _photographs() -> list[Any]:
    return [picture.mean(2) for picture in sets.load_sample_images().images]


@cache
def _sources() -> Any:
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = ("argparse.py", "textwrap.py", "json/decoder.py", "collections/__init__.py", "statistics.py")
    code = "".join((folder / file).read_text(encoding="utf-8") for file in files)
    values = np.frombuffer(code.encode("ascii", "replace"), np.uint8).astype(np.int64)
    return np.where(values == 10, 96, np.where((values >= 32) & (values < 127), values - 32, 97))


def _table(name: str, seed: int, raw: bool) -> Data:
    features, targets = _loaded(name)
    data = _split(torch.from_numpy(features).float(), torch.from_numpy(targets), seed)
    if raw:
        return data
    mean, std = data.inputs.mean(0), data.inputs.std(0)
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def _split(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    return Data(inputs[train], targets[train], inputs[test], targets[test])
