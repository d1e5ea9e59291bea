"""Data that several of these trainings share: placed digits, pairs, topics, tagged sources, and ratings."""

import io
import re
import sysconfig
import tokenize
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics as _topics
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo import samples
from examples.zoo.datasets import CHARACTERS, Data
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
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    pixels, labels = sets.load_digits(return_X_y=True)
    return torch.from_numpy(pixels).float().view(-1, 8, 8) / 16, torch.from_numpy(labels)


def placed(seed: int, *, side: int = 14) -> Data:
    """Standardised canvases (N, 1, side, side), each with a digit, and the corner (N, 2) from 0 to 6 at which it is."""
    pixels, _ = _digits()
    corners = np.random.default_rng(seed).integers(side - 7, size=(len(pixels), 2))
    canvases = torch.zeros(len(pixels), 1, side, side)
    for canvas, digit, (top, left) in zip(canvases, pixels, corners, strict=True):
        canvas[0, top : top + 8, left : left + 8] = digit
    canvases += 0.1 * torch.randn(canvases.shape, generator=torch.Generator().manual_seed(seed))
    return parted((canvases - canvases.mean()) / canvases.std(), torch.from_numpy(corners).float(), seed)


def pairs(seed: int, *, count: int = 2400, same: float = 0.5, noise: float = 0.0) -> Data:
    """Pairs of standardised digits (N, 2, 64), and 1 for those of one class, which are that share."""
    pixels, labels = _digits()
    random = np.random.default_rng(seed)
    first = random.integers(len(pixels), size=count)
    alike = random.random(count) < same
    numbers = labels.numpy()
    second = np.array(
        [
            random.choice(np.flatnonzero((numbers == numbers[one]) == wanted))
            for one, wanted in zip(first, alike, strict=True)
        ]
    )
    both = torch.stack([pixels[first], pixels[second]], 1).flatten(2)
    both = (both - pixels.mean()) / pixels.std()
    both += noise * torch.randn(both.shape, generator=torch.Generator().manual_seed(seed))
    return parted(both, torch.from_numpy(alike).float(), seed)


WORDS = 600
"""The words of Python's manual have codes from 1 up to this one; 0 is padding."""


@cache
def _manual() -> tuple[Any, Any]:
    names = ("string-methods", "datamodel" if "datamodel" in _topics else "specialnames", "typesmapping", "import")
    names = tuple(name for name in (*names, "formatstrings", "debugger", "function") if name in _topics)[:6]
    texts = [re.findall(r"[a-z]{2,}", _topics[name].lower()) for name in names]
    counts: dict[str, int] = {}
    for word in (word for words in texts for word in words):
        counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - 2]
    codes = {word: index for index, word in enumerate(common, 2)}
    rows, labels = [], []
    for label, words in enumerate(texts):
        known = [codes.get(word, 1) for word in words]
        starts = range(0, min(len(known), 5000) - 16, 12)
        rows += [known[start : start + 16] for start in starts]
        labels += [label] * len(starts)
    return np.array(rows), np.array(labels)


def chapters(seed: int) -> Data:
    """Sixteen words in a row of Python's manual (N, 16) as codes, and of which of six chapters they are."""
    rows, labels = _manual()
    return parted(torch.from_numpy(rows), torch.from_numpy(labels), seed)


TAGS = 4
"""Code, comment, string, and number."""


@cache
def _tagged() -> tuple[Any, Any]:
    codes, tags = [], []
    for name in ("fractions.py", "calendar.py", "shelve.py", "sched.py", "colorsys.py"):
        source = (Path(sysconfig.get_paths()["stdlib"]) / name).read_text(encoding="ascii", errors="replace")
        lines = source.splitlines(keepends=True)
        marks = [np.zeros(len(line), np.int64) for line in lines]
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = {tokenize.COMMENT: 1, tokenize.STRING: 2, tokenize.NUMBER: 3}.get(token.type, 0)
            if kind:
                for row in range(token.start[0], token.end[0] + 1):
                    begin = token.start[1] if row == token.start[0] else 0
                    end = token.end[1] if row == token.end[0] else len(lines[row - 1])
                    marks[row - 1][begin:end] = kind
        values = np.frombuffer(source.encode("ascii", "replace"), np.uint8).astype(np.int64)
        codes.append(np.where(values == 10, 96, np.where((values >= 32) & (values < 127), values - 32, 97)))
        tags.append(np.concatenate(marks))
    return np.concatenate(codes), np.concatenate(tags)


def tagged(seed: int, *, length: int = 24, count: int = 1500) -> Data:
    """Windows (N, length) of characters of Python's sources, and what each one is part of."""
    codes, tags = _tagged()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    rows, marks = (np.stack([values[start : start + length] for start in starts]) for values in (codes, tags))
    assert rows.max() < CHARACTERS
    return parted(torch.from_numpy(rows), torch.from_numpy(marks), seed)


def ratings(seed: int, *, rows: int = 300) -> Data:
    """Pairs (N, 2) of a picture's and a pixel's numbers, and the pixel's brightness, standardised."""
    pixels = _digits()[0][:rows].flatten(1)
    where = torch.cartesian_prod(torch.arange(rows), torch.arange(64))
    return parted(where, ((pixels - pixels.mean()) / pixels.std()).flatten(), seed)


def weighed(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean of the shares of zeros and of ones that have a logit of the right sign."""
    right = (outputs.squeeze(-1) > 0) == (labels > 0.5)
    return sum(right[labels == value].float().mean().item() for value in (0, 1)) / 2


def matched(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out places or rows whose largest output is at the target."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()
