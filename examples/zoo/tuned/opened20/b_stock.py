"""What several modules train on: lines of a photograph as series, digits as ratings, and lines of Python as tokens."""

import re
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets

from examples.zoo.samples import Pair, split

WORDS = 300
FILES = ("shelve.py", "ftplib.py", "tempfile.py", "locale.py", "optparse.py", "tarfile.py")


def scanlines(seed: int, *, length: int = 24, ahead: int = 4, count: int = 1200) -> Pair:
    """Windows (N, length) of a photograph's columns from top to bottom as bytes, and the bytes (N, ahead) below."""
    random = np.random.default_rng(seed)
    picture = _picture()
    rows = random.integers(picture.shape[0] - length - ahead, size=count)
    columns = random.integers(picture.shape[1], size=count)
    windows = torch.from_numpy(
        np.stack([picture[r : r + length + ahead, c] for r, c in zip(rows, columns, strict=True)])
    )
    return split(seed, windows[:, :length].float(), windows[:, length:].float())


def scaled(pair: Pair, column: int = 0) -> Pair:
    """Returns grey levels from -1.5 to 1.5 or so, around 0."""
    del column
    train, test = (tuple((values - 128) / 64 for values in part.tensors) for part in pair)
    return type(pair[0])(*train), type(pair[1])(*test)


def ratings(seed: int, *, users: int = 200) -> Pair:
    """Who rated (N,), what (N,), and with how many of 5 stars, from 1 to 5: pixels that digits have."""
    pictures = torch.from_numpy(sets.load_digits().data[:users]).float()
    who, what = (grid.flatten() for grid in torch.meshgrid(torch.arange(users), torch.arange(64), indexing="ij"))
    return split(seed, who, what, 1 + pictures.flatten() / 4)


def tokens(seed: int, *, length: int = 16, each: int = 220) -> Pair:
    """Lines of six files as codes (N, length) of tokens, padded with 0 behind, and the number of the file."""
    rows, labels = [], []
    vocabulary, files = _tokens()
    for label, lines in enumerate(files):
        for index in np.random.default_rng(seed).permutation(len(lines))[:each]:
            codes = [vocabulary.get(word, 1) for word in lines[index]][:length]
            rows.append(codes + [0] * (length - len(codes)))
            labels.append(label)
    return split(seed, torch.tensor(rows), torch.tensor(labels))


def balanced(found: torch.Tensor, true: torch.Tensor) -> float:
    """Returns the mean of the shares of positives and of negatives that are found."""
    found, true = found.flatten() > 0, true.flatten() > 0.5
    return ((found[true].float().mean() + (~found[~true]).float().mean()) / 2).item()


@cache
def _picture() -> Any:
    return sets.load_sample_images().images[0].mean(2)


@cache
def _tokens() -> tuple[dict[str, int], list[list[list[str]]]]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    files, counts = [], {}
    for file in FILES:
        lines = [re.findall(r"\w+|[^\w\s]", line) for line in (folder / file).read_text("latin-1").splitlines()]
        joined = [first + second for first, second in zip(lines[::2], lines[1::2], strict=False)]
        files.append([line for line in joined if len(line) > 3])
        for line in files[-1]:
            for word in line:
                counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - 2]
    return {word: code for code, word in enumerate(common, 2)}, files
