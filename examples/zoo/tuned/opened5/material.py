"""Views of the real data that the trainings of this half share, networks, and scores."""

import ast
import re
import sysconfig
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo.datasets import Data

ALPHABET = 28
"""Codes of letters in words: 0 is padding, 1 to 26 are the letters, 27 is anything else."""
VOWELS = 4
"""Classes of words: with one vowel, two, three, or more."""
BOOKS = ("argparse.py", "_pydecimal.py", "logging/__init__.py", "tarfile.py", "inspect.py")
VOCABULARY = 400
"""Codes of words in ``chunks``: 0 is padding, 1 a rare word."""


def parted(seed: int, inputs: torch.Tensor, targets: torch.Tensor, *, share: float = 0.3) -> Data:
    """Splits rows into those to train on and a share to judge by."""
    order = torch.from_numpy(np.random.default_rng(3100 + seed).permutation(len(inputs)))
    cut = int(len(order) * share)
    return Data(inputs[order[cut:]], targets[order[cut:]], inputs[order[:cut]], targets[order[:cut]])


def in_deviations(data: Data, *, targets: bool = False) -> Data:
    """Returns inputs, and targets on request, in standard deviations from the training rows' mean."""

    def both(train: torch.Tensor, test: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        deviation, mean = torch.std_mean(train, 0)
        return (train - mean) / (deviation + 1e-6), (test - mean) / (deviation + 1e-6)

    inputs, test_inputs = both(data.inputs, data.test_inputs)
    train, test = both(data.targets, data.test_targets) if targets else (data.targets, data.test_targets)
    return Data(inputs, train, test_inputs, test)


def centres(seed: int, *, count: int = 1600) -> Data:
    """The eight neighbours of a pixel of a photograph, in colour (N, 24), and its colour (N, 3): from 0 to 1."""
    random = np.random.default_rng(60 + seed)
    rows = []
    for _ in range(count):
        picture = _pictures()[random.integers(2)]
        top, left = (random.integers(extent - 5) for extent in picture.shape[:2])
        rows.append(picture[top : top + 5 : 2, left : left + 5 : 2].reshape(27) / 255)
    values = torch.from_numpy(np.stack(rows)).float()
    return parted(seed, torch.cat([values[:, :12], values[:, 15:]], 1), values[:, 12:15].contiguous())


def enlarged(seed: int, *, count: int = 1200) -> Data:
    """Grey patches (N, 1, 4, 4) of photographs, and the same in twice the resolution (N, 1, 8, 8): from 0 to 1."""
    random = np.random.default_rng(61 + seed)
    rows = []
    for _ in range(count):
        picture = _greys()[random.integers(2)]
        top, left = (random.integers(extent - 8) for extent in picture.shape)
        rows.append(picture[top : top + 8, left : left + 8] / 255)
    fine = torch.from_numpy(np.stack(rows)).float()[:, None]
    return parted(seed, nn.functional.avg_pool2d(fine, 2), fine)


def series(seed: int, *, length: int = 24, count: int = 1400) -> Data:
    """Brightness (N, 1, length) along a line of a photograph, about -2 to 2, and its next value (N, 1)."""
    random = np.random.default_rng(62 + seed)
    rows = []
    for _ in range(count):
        picture = _greys()[random.integers(2)]
        line = random.integers(picture.shape[0])
        at = random.integers(picture.shape[1] - length - 1)
        rows.append(picture[line, at : at + length + 1])
    values = (torch.from_numpy(np.stack(rows)).float() - 120) / 70
    return parted(seed, values[:, None, :-1].contiguous(), values[:, -1:].contiguous())


def turned(seed: int) -> Data:
    """Digits (N, 1, 8, 8) from 0 to 1, each turned by so many quarters as its target says."""
    images = torch.from_numpy(sets.load_digits().images).float()[:, None] / 16
    quarters = torch.from_numpy(np.random.default_rng(63 + seed).integers(4, size=len(images)))
    stacked = torch.stack([images.rot90(turn, (2, 3)) for turn in range(4)])
    return parted(seed, stacked[quarters, torch.arange(len(images))].contiguous(), quarters)


def pixels(seed: int, *, count: int = 24000) -> Data:
    """Pairs (N, 2) of a digit, 0 to 299, and a place in it, 0 to 63, and the ink there (N,): from 0 to 1."""
    ink = torch.from_numpy(sets.load_digits().data[:300]).float() / 16
    chosen = torch.from_numpy(np.random.default_rng(64 + seed).permutation(ink.numel())[:count])
    return parted(seed, torch.stack([chosen // 64, chosen % 64], 1), ink.flatten()[chosen])


def words(seed: int, *, length: int = 16, each: int = 260) -> Data:
    """Names in the standard library in small letters (N, length), padded with 0, and their class of ``VOWELS``."""
    rows, labels = [], []
    random = np.random.default_rng(65 + seed)
    for label, found in enumerate(_named()):
        for index in random.permutation(len(found))[:each]:
            rows.append(spelt(found[index], length))
            labels.append(label)
    return parted(seed, torch.tensor(rows), torch.tensor(labels))


def spelt(word: str, length: int) -> list[int]:
    """Returns codes of letters, padded with 0."""
    codes = [ord(letter) - 96 if "a" <= letter <= "z" else 27 for letter in word[:length]]
    return codes + [0] * (length - len(codes))


def chunks(seed: int, *, size: int = 14, each: int = 300) -> Data:
    """Words (N, size) of a source in their order, as numbers below ``VOCABULARY``, and of which of ``BOOKS``."""
    rows, labels = [], []
    random = np.random.default_rng(66 + seed)
    for label, codes in enumerate(_books()):
        for at in random.permutation(len(codes) - size)[:each]:
            rows.append(codes[at : at + size])
            labels.append(label)
    return parted(seed, torch.from_numpy(np.stack(rows)), torch.tensor(labels))


def scenery(seed: int, *, side: int = 40) -> Data:
    """Places (N, 2) from -1 to 1 in a cut of a photograph, and the brightness there (N, 1), standardised."""
    picture = _greys()[seed % 2][100 : 100 + 4 * side, 200 : 200 + 4 * side]
    small = torch.from_numpy(picture).float().view(side, 4, side, 4).mean((1, 3))
    small = (small - small.mean()) / small.std()
    axis = torch.linspace(-1, 1, side)
    places = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(-1, 2)
    return parted(seed, places, small.view(-1, 1), share=0.2)


def dense(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


def explained(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of the targets' variance that outputs explain; -1 at least, NaN if it is NaN."""
    outputs = outputs.reshape(targets.shape)
    error = (outputs - targets).square().mean()
    return (1 - error / (targets - targets.mean(0)).square().mean()).clamp(min=-1).item()


def correct(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the share of rows whose largest output is at the label; 0 if an output is NaN."""
    if outputs.isnan().any():
        return 0.0
    return (outputs.argmax(-1) == labels).float().mean().item()


def evenly(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the mean over the classes of the share of their rows that is found."""
    guessed = outputs.argmax(-1)
    return float(np.mean([(guessed[labels == one] == one).float().mean().item() for one in labels.unique()]))


def f1(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns F1 over all labels, of scores above zero."""
    found, labels = scores > 0, labels > 0.5
    return (2 * (found & labels).sum() / (found.sum() + labels.sum()).clamp(min=1)).item()


class Dilated(nn.Module):
    """A causal convolutional network over a series (N, 1, length), with an output (N, 1)."""

    def __init__(self, width: int = 16, depth: int = 3, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for level in range(depth):
            filters = nn.Conv1d(width if level else 1, width, 2, dilation=2**level)
            layers += [nn.ConstantPad1d((2**level, 0), 0.0), filters, act()]
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(width, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.out(self.features(values)[..., -1])


class Speller(nn.Module):
    """A recurrent reader of words (N, length) with outputs at the end."""

    def __init__(self, cell: type[nn.Module] = nn.GRU, width: int = 32, classes: int = VOWELS) -> None:
        super().__init__()
        self.letters = nn.Embedding(ALPHABET, 16, padding_idx=0)
        self.cell = cell(16, width, batch_first=True)
        self.out = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        read, _ = self.cell(self.letters(codes))
        last = (codes > 0).sum(1).clamp(min=1) - 1
        return self.out(read[torch.arange(len(codes)), last])


class Factors(nn.Module):
    """A rating as the product of two vectors, plus a mean for each side."""

    def __init__(self, rank: int = 8, spread: float = 0.3) -> None:
        super().__init__()
        self.pages, self.places = nn.Embedding(300, rank), nn.Embedding(64, rank)
        self.page, self.place = nn.Embedding(300, 1), nn.Embedding(64, 1)
        for table in (self.pages, self.places, self.page, self.place):
            nn.init.normal_(table.weight, std=spread)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        page, place = pairs.unbind(1)
        return (self.pages(page) * self.places(place)).sum(1) + (self.page(page) + self.place(place))[:, 0]


@cache
def _pictures() -> list[np.ndarray]:
    return list(sets.load_sample_images().images)


@cache
def _greys() -> list[np.ndarray]:
    return [picture.mean(2) for picture in _pictures()]


def _source(name: str) -> str:
    return (Path(sysconfig.get_paths()["stdlib"]) / name).read_text(encoding="utf-8")


@cache
def _named() -> list[list[str]]:
    found: list[set[str]] = [set() for _ in range(VOWELS)]
    for file in ("argparse.py", "ast.py", "base64.py", "calendar.py", "email/message.py", "datetime.py", "ftplib.py"):
        for node in ast.walk(ast.parse(_source(file))):
            name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "attr", None)
            if isinstance(name, str) and name.isascii():
                word = name.strip("_").lower()[:16]
                vowels = sum(word.count(vowel) for vowel in "aeiou")
                if vowels:
                    found[min(vowels, VOWELS) - 1].add(word)
    return [sorted(words) for words in found]


@cache
def _books() -> list[np.ndarray]:
    texts = [re.findall(r"[A-Za-z]{2,}", _source(book)) for book in BOOKS]
    counts: dict[str, int] = {}
    for text in texts:
        for word in text:
            counts[word] = counts.get(word, 0) + 1
    known = {
        word: 2 + at for at, word in enumerate(sorted(counts, key=lambda one: (-counts[one], one))[: VOCABULARY - 2])
    }
    return [np.array([known.get(word, 1) for word in text]) for text in texts]
