"""Data and models that several of these trainings share."""

import io
import keyword
import sysconfig
import tokenize
from functools import cache
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted

KINDS = 6
"""Kinds of characters in a source: others, names, keywords, signs, strings and comments."""


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns three quarters of the rows to train on, drawn by the seed, and the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def right_places(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out places whose largest output is at the target."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


def each_place(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy over all places."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


@cache
def _kinds() -> tuple[np.ndarray, np.ndarray]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    codes, kinds = [], []
    for file in ("heapq.py", "bisect.py", "shutil.py", "tarfile.py", "zipfile/__init__.py", "threading.py", "copy.py"):
        if not (folder / file).exists():
            continue
        source = (folder / file).read_text(encoding="utf-8")
        starts = np.cumsum([0] + [len(line) for line in source.splitlines(keepends=True)])
        found = np.zeros(len(source), np.int64)
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = {tokenize.NAME: 1, tokenize.NUMBER: 3, tokenize.OP: 3, tokenize.STRING: 4, tokenize.COMMENT: 5}
            number = kind.get(token.type, 0)
            if number == 1 and keyword.iskeyword(token.string):
                number = 2
            if number:
                (row, column), (last, end) = token.start, token.end
                found[starts[row - 1] + column : starts[last - 1] + end] = number
        values = np.frombuffer(source.encode("ascii", "replace"), np.uint8).astype(np.int64)
        codes.append(np.where(values == 10, 96, np.where((values >= 32) & (values < 127), values - 32, 97)))
        kinds.append(found)
    return np.concatenate(codes), np.concatenate(kinds)


def tagged(seed: int, *, length: int = 32, count: int = 1600) -> Data:
    """Windows (N, length) of Python's sources as codes of characters, and the kind of each character."""
    codes, kinds = _kinds()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    windows, tags = (np.stack([one[start : start + length] for start in starts]) for one in (codes, kinds))
    return parted(torch.from_numpy(windows), torch.from_numpy(tags), seed)


def coarse(seed: int, *, count: int = 1600) -> tuple[torch.Tensor, torch.Tensor]:
    """Patches (N, 3, 4, 4) of two photographs at half their resolution and (N, 3, 8, 8) at the full, from 0 to 255."""
    random = np.random.default_rng(seed)
    pictures = sets.load_sample_images().images
    found = []
    for _ in range(count):
        picture = pictures[random.integers(len(pictures))]
        top, left = (random.integers(length - 8) for length in picture.shape[:2])
        found.append(picture[top : top + 8, left : left + 8])
    fine = torch.from_numpy(np.stack(found)).float().movedim(-1, 1).contiguous()
    return functional.avg_pool2d(fine, 2), fine


class Enlarger(nn.Module):
    """Makes patches of 8 x 8 pixels out of 4 x 4."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 12, 3, padding=1),
            nn.PixelShuffle(2),
        )

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Returns the patches (N, 3, 8, 8)."""
        return self.body(patches)


class Tagger(nn.Module):
    """Says of each character of a window what kind it is, with a recurrence in both directions."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(98, 24)
        self.reader = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, KINDS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, length, KINDS)."""
        return self.head(self.reader(self.letters(characters))[0])


def numerals(seed: int, *, count: int | None = None) -> Data:
    """Digits (N, 1, 8, 8), standardised, and their numbers; the first ones of the training set alone, if asked for."""
    train, test = samples.numerals(seed)
    inputs, labels = (one[:count] for one in train.tensors)
    return Data(inputs, labels, *test.tensors)


def lenet(classes: int = 10) -> nn.Sequential:
    """Returns a small network of convolutions for digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def couples(seed: int, *, count: int = 2400) -> Data:
    """Two digits (N, 2, 64) with mean 0 and deviation 1, and whether they show the same number; half of them do."""
    random = np.random.default_rng(seed)
    values, labels = sets.load_digits(return_X_y=True)
    first = random.integers(len(values), size=count)
    second = random.integers(len(values), size=count)
    for row in range(0, count, 2):
        second[row] = random.choice(np.flatnonzero(labels == labels[first[row]]))
    pixels = torch.from_numpy((values - values.mean()) / values.std()).float()
    same = torch.from_numpy(labels[first] == labels[second]).float()
    return parted(torch.stack([pixels[first], pixels[second]], 1), same, seed)
