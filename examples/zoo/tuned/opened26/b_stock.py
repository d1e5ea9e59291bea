"""What several modules train on: ratings, lifetimes, sales, pieces of Python's sources, and a walk with a goal."""

import keyword
import re
import sysconfig
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

from examples.zoo.samples import Pair, split

USERS, ITEMS = 120, 90


def ratings(seed: int, *, count: int = 5000, noise: float = 0.3) -> Pair:
    """Users (N,), items (N,) and how much the one likes the other, with mean 0 and deviation 1, from four tastes."""
    random = torch.Generator().manual_seed(seed)
    tastes, kinds = torch.randn(USERS, 4, generator=random), torch.randn(ITEMS, 4, generator=random)
    users = torch.randint(USERS, (count,), generator=random)
    items = torch.randint(ITEMS, (count,), generator=random)
    liked = (tastes[users] * kinds[items]).sum(1) / 2
    return split(seed, users, items, (liked + noise * torch.randn(count, generator=random)) / liked.std())


def preferences(seed: int, *, count: int = 6000) -> Pair:
    """Users (N,), an item that each prefers, and one that it likes less."""
    random = torch.Generator().manual_seed(seed)
    tastes, kinds = torch.randn(USERS, 4, generator=random), torch.randn(ITEMS, 4, generator=random)
    users = torch.randint(USERS, (count,), generator=random)
    first, second = torch.randint(ITEMS, (2, count), generator=random)
    gap = (tastes[users] * (kinds[first] - kinds[second])).sum(1)
    return split(seed, users, torch.where(gap > 0, first, second), torch.where(gap > 0, second, first))


def lifetimes(seed: int, *, count: int = 1500) -> Pair:
    """Eight measurements with mean 0 and deviation 1, a lifetime in months, and whether its end was seen (1 or 0)."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 8, generator=random)
    risk = 1.2 * rows[:, 0] - 1.0 * rows[:, 1] + 0.8 * rows[:, 2] * rows[:, 3]
    ends = 20 * (-torch.rand(count, generator=random).log()).pow(0.5) * (-0.7 * risk).exp()
    lost = 60 * torch.rand(count, generator=random)
    return split(seed, rows, torch.minimum(ends, lost).clamp(min=0.1), (ends < lost).float())


def concordance(risks: torch.Tensor, months: torch.Tensor, ended: torch.Tensor) -> float:
    """Returns the share of comparable pairs whose order is right, from -1 (all wrong) to 1 (all right)."""
    comparable = (months[:, None] < months) & (ended[:, None] > 0)
    right = (risks[:, None] > risks)[comparable].float().mean()
    return (2 * right - 1).item()


def sales(seed: int, *, days: int = 1100, length: int = 14) -> Pair:
    """Windows (N, length, 1) of a shop's daily sales with mean 0 and deviation 1, and those of the next day (N, 1)."""
    random = np.random.default_rng(seed)
    time = np.arange(days)
    week = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 1.6, -1.5])[time % 7]
    spells = np.convolve(random.standard_normal(days + 30), 0.9 ** np.arange(30), "full")[30 : days + 30]
    sold = week * (1 + 0.5 * np.sin(time / 40)) + 0.3 * spells + 0.15 * random.standard_normal(days)
    series = torch.from_numpy((sold - sold.mean()) / sold.std()).float()
    windows = series.unfold(0, length + 1, 1)
    return split(seed, windows[:, :length, None].contiguous(), windows[:, length:].contiguous())


SOURCES = ("ast.py", "calendar.py", "configparser.py", "difflib.py", "fractions.py", "tarfile.py")
WORDS = 600


def snippets(seed: int, *, each: int = 400, length: int = 20) -> Pair:
    """Twenty words in a row (N, length) as numbers from 0 to 599, and of which of six files they are."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = [re.findall(r"\w+|[^\w\s]", (folder / file).read_text(encoding="utf-8")) for file in SOURCES]
    known: dict[str, int] = {}
    for word in [*keyword.kwlist, *(word for text in texts for word in text[:4000])]:
        if len(known) < WORDS - 1:
            known.setdefault(word, 1 + len(known))
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for label, text in enumerate(texts):
        codes = [known.get(word, 0) for word in text]
        for start in random.integers(len(codes) - length, size=each):
            rows.append(codes[start : start + length])
            labels.append(label)
    return split(seed, torch.tensor(rows), torch.tensor(labels))


def walk(places: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns where one comes by a step left, none or right from places in [-1, 1], the reward, and what ends."""
    after = (places + 0.15 * (actions - 1)).clamp(-1, 1)
    ends = (after - 0.5).abs() < 0.1
    return after, ends.float() - 0.05, ends


def columns(pair: Pair) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Returns the columns to train on, and those to judge by."""
    train, test = pair
    return list(train.tensors), list(test.tensors)


def picked(dataset: TensorDataset, size: int) -> tuple[torch.Tensor, ...]:
    """Returns a random batch."""
    return dataset[torch.randint(len(dataset), (size,))]
