"""Data and models that several of these trainings share."""

import ast
import io
import math
import sysconfig
import tokenize
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import predicted

FILES = ("turtle.py", "_pydecimal.py", "tarfile.py", "mailbox.py", "inspect.py", "ipaddress.py")
SYMBOLS = CHARACTERS + 32


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int, *, train: int | None = None) -> Data:
    """Returns three quarters of the rows to train on, or that many, drawn by the seed, and the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(inputs)))
    count = train or len(order) - len(order) // 4
    return Data(inputs[order[:count]], targets[order[:count]], inputs[order[count:]], targets[order[count:]])


def explained(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def found(model: nn.Module, data: Data) -> float:
    """Returns the mean over classes of the share of held-out samples that are told right."""
    guessed, true = predicted(model, data.test_inputs).argmax(-1), data.test_targets
    return torch.stack([(guessed[true == one] == one).float().mean() for one in true.unique()]).mean().item()


@cache
def _source(file: str) -> str:
    return (Path(sysconfig.get_paths()["stdlib"]) / file).read_text(encoding="utf-8")


@cache
def _kinds() -> tuple[np.ndarray, np.ndarray]:
    letters, kinds = [], []
    numbers = {tokenize.NAME: 1, tokenize.STRING: 2, tokenize.COMMENT: 3, tokenize.NUMBER: 4}
    for file in FILES[1:4]:
        lines = _source(file).splitlines(keepends=True)
        starts = np.cumsum([0] + [len(line) for line in lines])
        kind = np.zeros(starts[-1], np.int64)
        for token in tokenize.generate_tokens(io.StringIO(_source(file)).readline):
            (top, left), (bottom, right) = token.start, token.end
            if token.type in numbers:
                kind[starts[top - 1] + left : starts[bottom - 1] + right] = numbers[token.type]
        codes = np.frombuffer("".join(lines).encode("ascii", "replace"), np.uint8).astype(np.int64)
        letters.append(np.where(codes == 10, 96, np.where((codes >= 32) & (codes < 127), codes - 32, 97)))
        kinds.append(kind)
    return np.concatenate(letters), np.concatenate(kinds)


def tags(seed: int, *, length: int = 32, count: int = 1200) -> Data:
    """Windows (N, length) of Python as codes of characters, and whether each is of a name, string, comment, number."""
    letters, kinds = _kinds()
    starts = np.random.default_rng(seed).integers(len(letters) - length, size=count)
    windows = [
        torch.from_numpy(np.stack([row[start : start + length] for start in starts])) for row in (letters, kinds)
    ]
    return parted(*windows, seed)


def hashed(words: str, width: int) -> np.ndarray:
    """Returns how often each of as many kinds of three letters is in the words, as a row of length 1."""
    padded = f" {words.lower()} "
    row = np.zeros(width, np.float32)
    for index in range(len(padded) - 2):
        row[zlib.crc32(padded[index : index + 3].encode()) % width] += 1
    return row / np.linalg.norm(row)


@cache
def _documented() -> tuple[list[str], list[str], list[int]]:
    names, texts, files = [], [], []
    for index, file in enumerate(FILES):
        for node in ast.walk(ast.parse(_source(file))):
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if text and not node.name.startswith("__"):
                names.append(node.name.replace("_", " "))
                texts.append(" ".join(text.split())[:160])
                files.append(index)
    return names, texts, files


@cache
def _rows(width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    names, texts, files = _documented()
    return (
        *(torch.from_numpy(np.stack([hashed(one, width) for one in part])) for part in (names, texts)),
        torch.tensor(files),
    )


def pairs(seed: int, *, width: int = 256) -> Data:
    """Names of functions as hashed letters (N, width), and their docstrings likewise."""
    names, texts, _ = _rows(width)
    return parted(10 * names, 10 * texts, seed)


def shelves(seed: int, *, width: int = 256) -> Data:
    """Docstrings as hashed letters (N, width), and in which of six files each is."""
    _, texts, files = _rows(width)
    return parted(10 * texts, files, seed)


def crops(seed: int, *, side: int = 8, count: int = 1500) -> torch.Tensor:
    """Colour patches (N, 3, side, side) of two photographs at half their size, from 0 to 255."""
    random = np.random.default_rng(seed)
    pictures = [picture[::2, ::2] for picture in sets.load_sample_images().images]
    cut = []
    for index in random.integers(2, size=count):
        top, left = (random.integers(length - side) for length in pictures[index].shape[:2])
        cut.append(pictures[index][top : top + side, left : left + side])
    return torch.from_numpy(np.stack(cut)).float().movedim(-1, 1)


def colours(pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns how bright pixels are (N, 1, H, W), and how red and how blue (N, 2, H, W), all standardised."""
    grey = pictures.mean(1, keepdim=True)
    tints = torch.stack([pictures[:, 0] - pictures[:, 1], pictures[:, 2] - pictures[:, 1]], 1)
    return (grey - grey.mean()) / grey.std(), (tints - tints.mean((0, 2, 3), True)) / tints.std((0, 2, 3), keepdim=True)


def turned(seed: int, *, most: float = 80.0) -> Data:
    """Digits (N, 1, 8, 8) turned by up to that many degrees, standardised, and the angles (N, 1) in radians."""
    pixels = torch.from_numpy(sets.load_digits().images).float()[:, None] / 16
    angles = (torch.rand(len(pixels), generator=torch.Generator().manual_seed(seed)) * 2 - 1) * math.radians(most)
    rows = torch.stack([angles.cos(), -angles.sin(), 0 * angles, angles.sin(), angles.cos(), 0 * angles], 1)
    grid = functional.affine_grid(rows.view(-1, 2, 3), list(pixels.shape), align_corners=False)
    pixels = functional.grid_sample(pixels, grid, align_corners=False)
    return parted((pixels - pixels.mean()) / pixels.std(), angles[:, None], seed)


def sums(seed: int, *, count: int = 1600) -> Data:
    """Two digits side by side (N, 1, 8, 16), standardised, and their sum (N, 1) from 0 to 18."""
    digits = sets.load_digits()
    chosen = np.random.default_rng(seed).integers(len(digits.target), size=(count, 2))
    pixels = torch.from_numpy(np.concatenate([digits.images[chosen[:, 0]], digits.images[chosen[:, 1]]], 2)).float()[
        :, None
    ]
    return parted(
        (pixels - pixels.mean()) / pixels.std(), torch.from_numpy(digits.target[chosen].sum(1)).float()[:, None], seed
    )


def ratings(seed: int, *, rows: int = 400) -> Data:
    """Pairs of a digit's row and a pixel's column, and how dark it is there (N, 1), standardised."""
    values = torch.from_numpy(sets.load_digits().data[:rows]).float()
    columns = (values.std(0) > 2).nonzero()[:, 0]
    values = (values[:, columns] - 8) / 6
    where = torch.cartesian_prod(torch.arange(rows), torch.arange(len(columns)))
    return parted(where, values.reshape(-1, 1), seed)
