"""More real data, as pairs of datasets: one to train on, one to judge by."""

import sysconfig
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from torch.utils.data import TensorDataset, random_split

Pair = tuple[TensorDataset, TensorDataset]


def split(seed: int, *columns: torch.Tensor, share: float = 0.7) -> Pair:
    """Returns a share of the rows, drawn by the seed, and the others."""
    parts = random_split(range(len(columns[0])), [share, 1 - share], torch.Generator().manual_seed(1000 + seed))
    train, test = (TensorDataset(*(column[torch.tensor(part.indices)] for column in columns)) for part in parts)
    return train, test


def standardised(pair: Pair, *columns: int) -> Pair:
    """Returns the columns in units of the training rows' deviation from their mean."""
    train, test = (list(part.tensors) for part in pair)
    for column in columns:
        std, mean = torch.std_mean(train[column].float(), 0)
        train[column], test[column] = ((values - mean) / (std + 1e-8) for values in (train[column], test[column]))
    return TensorDataset(*train), TensorDataset(*test)


def tumours(seed: int) -> Pair:
    """The ten mean measurements of a tumour as they are, and the ten worst ones: R² above 0.8 is possible."""
    values = torch.from_numpy(_table("load_breast_cancer")[0]).float()
    return split(seed, values[:, :10], values[:, 20:])


def diagnoses(seed: int) -> Pair:
    """The ten mean measurements of a tumour as they are, and whether it is benign."""
    values, labels = _table("load_breast_cancer")
    return split(seed, torch.from_numpy(values[:, :10]).float(), torch.from_numpy(labels))


def proline(seed: int) -> Pair:
    """Twelve measurements of a wine as they are, and its proline (N, 1), from 278 to 1680."""
    values = torch.from_numpy(_table("load_wine")[0]).float()
    return split(seed, values[:, :12], values[:, 12:])


def halves(seed: int) -> Pair:
    """The upper half of a digit, from 0 to 1, and its lower half, both (N, 32)."""
    values = torch.from_numpy(_table("load_digits")[0]).float() / 16
    return split(seed, values[:, :32], values[:, 32:])


def numerals(seed: int) -> Pair:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1, and their numbers."""
    values, labels = _table("load_digits")
    images = torch.from_numpy(values).float().view(-1, 1, 8, 8)
    return split(seed, (images - images.mean()) / images.std(), torch.from_numpy(labels))


def scenes(seed: int, *, count: int = 1600, side: int = 8) -> Pair:
    """Colour patches (N, 3, side, side) with mean 0 and deviation 1, and of which of two photographs they are."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=count)
    patches = []
    for label in labels:
        picture = _photographs()[label]
        top, left = (random.integers(length - side) for length in picture.shape[:2])
        patches.append(picture[top : top + side, left : left + side])
    images = torch.from_numpy(np.stack(patches)).float().movedim(-1, 1)
    return split(seed, (images - images.mean()) / images.std(), torch.from_numpy(labels))


SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "ETHIOPIC", "TIBETAN")
LETTERS = 40


def names(seed: int, *, length: int = 24, each: int = 110) -> Pair:
    """Unicode's names of letters without their script, as codes (N, length) padded with 0, and the script."""
    rows, labels = [], []
    for label, script in enumerate(SCRIPTS):
        found = _names(script)
        chosen = np.random.default_rng(seed).permutation(len(found))[:each]
        rows += [_spelt(found[index], length) for index in chosen]
        labels += [label] * len(chosen)
    return split(seed, torch.tensor(rows), torch.tensor(labels))


FILES = ("ast.py", "calendar.py", "configparser.py", "csv.py", "difflib.py", "fractions.py")


def lines(seed: int, *, each: int = 250) -> Pair:
    """Counts (N, 96) of characters in three lines of Python, and of which of six files they are."""
    rows, labels = [], []
    for label, file in enumerate(FILES):
        counts = _counts(file)
        chosen = np.random.default_rng(seed).permutation(len(counts))[:each]
        rows.append(counts[chosen])
        labels += [label] * len(chosen)
    return split(seed, torch.from_numpy(np.concatenate(rows)).float(), torch.tensor(labels))


def accuracy(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the share of rows whose largest output is at the label, or whose only one has the right sign."""
    guessed = (outputs.squeeze(-1) > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(-1)
    return (guessed == labels).float().mean().item()


def explained(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of the targets' variance that the outputs explain; -1 at least, NaN if it is NaN."""
    return (1 - (outputs - targets).square().mean() / targets.var(0).mean()).clamp(min=-1).item()


@cache
def _table(name: str) -> tuple[Any, Any]:
    return getattr(sets, name)(return_X_y=True)


@cache
def _photographs() -> list[Any]:
    return list(sets.load_sample_images().images)


@cache
def _names(script: str) -> list[str]:
    named = (unicodedata.name(chr(code), "") for code in range(0x20000))
    return [name.removeprefix(script).strip() for name in named if name.startswith(f"{script} ")]


def _spelt(name: str, length: int) -> list[int]:
    codes = [1 + (ord(letter) - 64 if letter.isalpha() else 27 + ord(letter) % 12) for letter in name[:length]]
    return codes + [0] * (length - len(codes))


@cache
def _counts(file: str) -> Any:
    text = (Path(sysconfig.get_paths()["stdlib"]) / file).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.strip()]
    joined = [" ".join(rows[index : index + 3]).encode("ascii", "replace") for index in range(0, len(rows), 2)]
    return np.stack([np.bincount(np.clip(np.frombuffer(one, np.uint8), 32, 127) - 32, minlength=96) for one in joined])
