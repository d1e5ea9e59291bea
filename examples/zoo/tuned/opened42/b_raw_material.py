"""Lines of Python's sources, rows of photographs, and halves of digits, as the modules of this half need them."""

import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted

FILES = ("inspect.py", "pathlib.py", "tarfile.py", "zipfile.py", "typing.py", "optparse.py", "doctest.py", "pdb.py")
SYMBOLS = 97
"""Codes of characters are below it; 0 is padding."""


def scored(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of rows whose largest output is at the target; of sequences, the share of places."""
    return (outputs.argmax(-1) == targets).float().mean().item()


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance, of all columns, that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def tagged(seed: int, *, count: int = 1400, length: int = 32) -> Data:
    """Lines (N, length) as codes, padded at their end, and whether each is a line of prose (1) or of code (0)."""
    codes, labels = _lines()
    chosen = np.random.default_rng(seed).permutation(len(codes))[:count]
    return parted(seed, torch.from_numpy(codes[chosen, :length]), torch.from_numpy(labels[chosen]))


def forecasts(seed: int, *, count: int = 1200, past: int = 24, ahead: int = 4) -> Data:
    """Rows of grey from photographs as series (N, past, 1), and the values that follow."""
    random, series = np.random.default_rng(seed), []
    pictures = datasets._photographs()
    for _ in range(count):
        picture = pictures[random.integers(len(pictures))]
        row, start = random.integers(picture.shape[0]), random.integers(picture.shape[1] - 2 * (past + ahead))
        smooth = np.convolve(picture[row, start : start + past + ahead + 4], np.ones(5) / 5, "valid")
        series.append(smooth)
    values = torch.from_numpy(np.stack(series)).float()
    values = (values - values.mean()) / values.std()
    return parted(seed, values[:, :past, None], values[:, past:])


def counted(seed: int) -> Data:
    """Lines as codes (N, 32), and how many blanks and dots are in each of them, as floats (N,)."""
    data = tagged(seed)
    counts, test_counts = (((part == 1) | (part == 15)).sum(1).float() for part in (data.inputs, data.test_inputs))
    return Data(data.inputs, counts, data.test_inputs, test_counts)


def scaled_digits(seed: int) -> Data:
    """Digits, flat, with mean 0 and deviation 1."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def parted(seed: int, inputs: torch.Tensor, targets: torch.Tensor) -> Data:
    """Leaves a quarter of the rows, drawn by the seed, to judge by."""
    order = torch.from_numpy(np.random.default_rng(100 + seed).permutation(len(inputs)))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def named(seed: int) -> Data:
    """Names of letters as codes (N, 24), padded at their end, and their scripts, eight of them."""
    train, test = samples.names(seed)
    return Data(*train.tensors, *test.tensors)


def files(seed: int) -> Data:
    """Shares (N, 96) of characters in lines, standardised, and of which of six files they are."""
    train, test = samples.standardised(samples.lines(seed), 0)
    return Data(*train.tensors, *test.tensors)


class Recurrent(nn.Module):
    """An embedding, a GRU, the largest value of each unit over the places, and a head."""

    def __init__(self, symbols: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(symbols, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.letters(codes))[0].amax(1))


@cache
def _lines() -> tuple[np.ndarray, np.ndarray]:
    folder, rows, labels = Path(sysconfig.get_paths()["stdlib"]), [], []
    for file in FILES:
        path = folder / file
        if not path.exists():
            continue
        quoted = False
        for line in path.read_text(encoding="utf-8").splitlines():
            marks = line.count('"""')
            bare = line.strip().replace('"""', "").lstrip("#").strip()
            prose = quoted or line.strip().startswith(("#", '"""'))
            quoted ^= marks % 2 == 1
            if len(bare) >= 20:
                codes = np.clip(np.frombuffer(bare[:48].encode("ascii", "replace"), np.uint8), 32, 127).astype(int) - 31
                rows.append(np.pad(codes, (0, 48 - len(codes))))
                labels.append(int(prose))
    return np.stack(rows), np.array(labels)
