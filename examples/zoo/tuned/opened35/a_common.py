"""Data and parts of models that several of these trainings share."""

import io
import keyword
import sysconfig
import tokenize
from functools import cache
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted

KINDS = 7
"""What a character may be: blank, a name, a keyword, a number, a string, an operator, a comment."""
SOURCES = ("argparse.py", "calendar.py", "csv.py", "difflib.py", "fractions.py", "shlex.py")


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns three quarters of the rows to train on, drawn by the seed, and the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def joined(pair: samples.Pair) -> Data:
    """Returns a pair of datasets as one."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def place_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of logits (N, length, classes)."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def place_accuracy(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out places whose largest logit is at the target."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@cache
def _source(file: str) -> str:
    return (Path(sysconfig.get_paths()["stdlib"]) / file).read_text(encoding="ascii", errors="replace")


def _code(text: str) -> np.ndarray:
    return np.clip(np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int64) - 31, 0, 96)


@cache
def _tagged() -> tuple[np.ndarray, np.ndarray]:
    codes, kinds = [], []
    for file in SOURCES:
        text = _source(file)
        starts = np.cumsum([0] + [len(line) for line in text.splitlines(keepends=True)])
        found = np.zeros(len(text), np.int64)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = {tokenize.NAME: 1, tokenize.NUMBER: 3, tokenize.STRING: 4, tokenize.OP: 5, tokenize.COMMENT: 6}
            begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            found[begin:end] = 2 if keyword.iskeyword(token.string) else kind.get(token.type, 0)
        codes.append(_code(text))
        kinds.append(found)
    return np.concatenate(codes), np.concatenate(kinds)


def tagged(seed: int, *, length: int = 24, count: int = 1600) -> Data:
    """Windows (N, length) of Python's sources as codes below 97, and of which kind each character is."""
    codes, kinds = _tagged()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    places = starts[:, None] + np.arange(length)
    return parted(torch.from_numpy(codes[places]), torch.from_numpy(kinds[places]), seed)


def excerpts(seed: int, *, length: int = 120, each: int = 220) -> Data:
    """Windows (N, length) of six of Python's sources as codes below 97, and of which file each is."""
    random, rows, labels = np.random.default_rng(seed), [], []
    for label, file in enumerate(SOURCES):
        codes = _code(_source(file))
        starts = random.integers(len(codes) - length, size=each)
        rows.append(codes[starts[:, None] + np.arange(length)])
        labels += [label] * each
    return parted(torch.from_numpy(np.concatenate(rows)), torch.tensor(labels), seed)


def turned(seed: int) -> Data:
    """Digits (N, 1, 8, 8), standardised and turned by quarters, and by how many of them."""
    pixels = torch.from_numpy(load_digits().images).float()
    pixels = (pixels - pixels.mean()) / pixels.std()
    quarters = torch.from_numpy(np.random.default_rng(seed).integers(4, size=len(pixels)))
    images = torch.stack([torch.rot90(one, int(count), (0, 1)) for one, count in zip(pixels, quarters, strict=True)])
    return parted(images[:, None], quarters, seed)


def images(seed: int, *, noise: float = 0.0) -> Data:
    """Digits (N, 1, 8, 8), standardised, under noise, and their numbers."""
    pixels, labels = (torch.from_numpy(one) for one in load_digits(return_X_y=True))
    pixels = ((pixels - pixels.mean()) / pixels.std()).float().view(-1, 1, 8, 8)
    spoilt = pixels + noise * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed))
    return parted(spoilt, labels, seed)


@cache
def _light() -> np.ndarray:
    light = np.concatenate([picture.mean(2)[:420, :640] for picture in load_sample_images().images])
    return (light - light.mean()) / light.std()


def tiles(seed: int, *, side: int = 8, count: int = 1600, every: int = 2) -> torch.Tensor:
    """Grey tiles (N, side * side) of two photographs, standardised, with every second row and column."""
    random, light = np.random.default_rng(seed), _light()[::every, ::every]
    tops, lefts = (random.integers(length - side, size=count) for length in light.shape)
    found = [light[top : top + side, left : left + side].flatten() for top, left in zip(tops, lefts, strict=True)]
    return torch.from_numpy(np.stack(found)).float()


def columns(seed: int, *, length: int = 20, ahead: int = 3, count: int = 1600) -> Data:
    """What lies below one another in two photographs (N, length), standardised, and the pixels that follow."""
    random, light = np.random.default_rng(seed), _light()
    tops = random.integers(len(light) - length - ahead, size=count)
    lefts = random.integers(light.shape[1], size=count)
    found = light[tops[:, None] + np.arange(length + ahead), lefts[:, None]]
    values = torch.from_numpy(found).float()
    return parted(values[:, :length].contiguous(), values[:, length:].contiguous(), seed)


class Attending(nn.Module):
    """Embeds characters with what is near, lets them attend to each other, and puts out logits for each."""

    def __init__(self, layers: int = 1, width: int = 32, length: int = 24, first: bool = True) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(97, width), nn.Embedding(length, width)
        self.near = nn.Conv1d(width, width, 5, padding=2)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=first)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, KINDS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, length, kinds)."""
        states = self.near(self.letters(characters).mT).mT + 0.1 * self.places.weight
        for layer in self.layers:
            states = layer(states)
        return self.head(states)


class Reading(nn.Module):
    """Reads characters from both sides with a GRU, and puts out logits for each."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(97, 24)
        self.reader = nn.GRU(24, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, KINDS)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, length, kinds)."""
        return self.head(self.reader(self.letters(characters))[0])


class Spelling(nn.Module):
    """Slides over characters, takes the largest value over all places, and puts out logits."""

    def __init__(self, letters: int = 97, classes: int = 6, width: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, 24)
        self.slide, self.head = nn.Conv1d(24, width, 3, padding=1), nn.Linear(width, classes)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, classes)."""
        return self.head(functional.relu(self.slide(self.letters(characters).mT)).amax(2))


def seeing(classes: int, width: int = 16) -> nn.Sequential:
    """Returns a small network of convolutions for images (N, 1, 8, 8)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * width, classes),
    )
