"""What the cases train on: scikit-learn's sets, Python's sources, and rows from formulas."""

import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_friedman1, make_moons
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass
class Rows:
    """Rows to train on, and others to judge by."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    def loader(self, size: int, **options: Any) -> DataLoader[Any]:
        """Returns a loader that shuffles and drops the incomplete batch, unless the options say otherwise."""
        return DataLoader(
            TensorDataset(self.x, self.y), batch_size=size, **{"shuffle": True, "drop_last": True} | options
        )

    def draws(self, size: int, steps: int) -> Batches:
        """Yields that many batches of rows drawn by chance."""
        for _ in range(steps):
            index = torch.randint(len(self.x), (size,))
            yield self.x[index], self.y[index]

    def epochs(self, size: int, steps: int, **options: Any) -> Batches:
        """Yields that many batches of a loader, epoch after epoch."""
        loader = self.loader(size, **options)
        while steps > 0:
            for x, y in loader:
                if steps > 0:
                    yield x, y
                steps -= 1


def fresh(make: Callable[[int], tuple[Tensor, Tensor]], size: int, steps: int) -> Batches:
    """Yields that many batches of new rows from a formula."""
    for _ in range(steps):
        yield make(size)


def anew(make: Callable[[int], tuple[Tensor, Tensor]], size: int, seed: int) -> Rows:
    """Returns new rows from a formula, to judge by."""
    torch.manual_seed(seed + 1)
    x, y = make(size)
    return Rows(x, y, x, y)


def parted(x: Any, y: Any, seed: int, *, share: float = 0.3) -> Rows:
    """Returns the rows in two parts, as tensors."""
    x, x_test, y, y_test = train_test_split(x, y, test_size=share, random_state=seed)
    return Rows(*(torch.as_tensor(part) for part in (x, y, x_test, y_test)))


def scaled(rows: Rows, *, targets: bool = False) -> Rows:
    """Returns the rows with inputs, and targets on request, in deviations from the training rows' mean."""
    x, x_test = _scaled(rows.x.float(), rows.x_test.float())
    y, y_test = _scaled(rows.y.float(), rows.y_test.float()) if targets else (rows.y, rows.y_test)
    return Rows(x, y, x_test, y_test)


def _scaled(values: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    std, mean = torch.std_mean(values, 0)
    std = torch.where(std < 1e-6, torch.ones_like(std), std)
    return (values - mean) / std, (others - mean) / std


def table(load: Any, seed: int) -> Rows:
    """One of scikit-learn's tables with standardised columns; targets of regressions (N,) are standardised too."""
    x, y = load(return_X_y=True)
    rows = parted(x.astype("float32"), y, seed)
    return scaled(rows, targets=rows.y.is_floating_point())


def images(seed: int) -> Rows:
    """Digits (N, 1, 8, 8) of mean 0 and deviation 1."""
    x, y = load_digits(return_X_y=True)
    return parted(((x - x.mean()) / x.std()).astype("float32").reshape(-1, 1, 8, 8), y, seed)


def pixels(seed: int) -> Rows:
    """Digits (N, 64) of mean 0 and deviation 1."""
    rows = images(seed)
    return Rows(rows.x.flatten(1), rows.y, rows.x_test.flatten(1), rows.y_test)


def portraits(seed: int) -> Rows:
    """Digits (N, 64) of mean 0 and deviation 1, which are their own targets."""
    rows = pixels(seed)
    return Rows(rows.x, rows.x, rows.x_test, rows.x_test)


def friedman(seed: int, *, count: int = 2400, noise: float = 0.5) -> Rows:
    """Friedman's first function of ten columns, with noise; all standardised, targets (N,)."""
    x, y = make_friedman1(count, n_features=10, noise=noise, random_state=seed)
    return scaled(parted(x.astype("float32"), y.astype("float32"), seed), targets=True)


def moons(seed: int, *, count: int = 1200, noise: float = 0.2) -> Rows:
    """Two moons that overlap a little."""
    x, y = make_moons(count, noise=noise, random_state=seed)
    return scaled(parted(x.astype("float32"), y, seed))


def tones(size: int, *, length: int = 24) -> tuple[Tensor, Tensor]:
    """Noisy tones (N, length, 1) of three frequencies with any phase, and which frequency it is."""
    label = torch.randint(3, (size,))
    turns = torch.tensor([0.3, 0.6, 1.1])[label][:, None] * torch.arange(length)
    wave = (turns + 6.3 * torch.rand(size, 1)).sin() * 1.3 + 0.3 * torch.randn(size, length)
    return wave[..., None], label


def settling(size: int, *, length: int = 20) -> tuple[Tensor, Tensor]:
    """Damped swings (N, length, 1) with noise, and the values that follow (N, length, 1)."""
    pace, damp = 0.4 + 0.2 * torch.rand(size, 1), 0.02 + 0.02 * torch.rand(size, 1)
    time = torch.arange(length + 1.0)
    swing = 1.8 * (-damp * time).exp() * (pace * time + 6.3 * torch.rand(size, 1)).sin()
    return (swing + 0.05 * torch.randn_like(swing))[:, :-1, None], swing[:, 1:, None]


SCRIPTS = ("tokenize.py", "html/parser.py", "random.py", "tarfile.py")
WORDS, CHARACTERS = 60, 96


def dialects(seed: int, *, length: int = 16, count: int = 2400) -> Rows:
    """Sentences (N, length) of words in four dialects, which prefer other words, and the dialect of each."""
    random = torch.Generator().manual_seed(100 + seed)
    habits = (0.8 * torch.randn(4, WORDS, generator=random)).softmax(1)
    label = torch.randint(4, (count,), generator=random)
    words = habits[label].multinomial(length, replacement=True, generator=random)
    return parted(words.numpy(), label.numpy(), seed)


def phrases(seed: int, *, length: int = 24, count: int = 1500) -> Rows:
    """Windows (N, length) of Python's sources as codes of characters, and the characters that follow (N, length)."""
    random = np.random.default_rng(seed)
    windows = _windows(np.concatenate([_codes(script) for script in SCRIPTS]), random, length + 1, count)
    return parted(windows[:, :-1], windows[:, 1:], seed)


def _windows(codes: Any, random: np.random.Generator, length: int, count: int) -> Any:
    return np.stack([codes[start : start + length] for start in random.integers(len(codes) - length, size=count)])


@cache
def _codes(script: str) -> Any:
    text = " ".join((Path(sysconfig.get_paths()["stdlib"]) / script).read_text(encoding="utf-8").split())
    return np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int64) - 32


def communities(seed: int, *, people: int = 240, groups: int = 4) -> tuple[Rows, Tensor]:
    """People with vague features of four groups, as rows of all people, and who knows whom (N, N).

    ``x`` and ``x_test`` are the features of all people; ``y`` and ``y_test`` hold -1 for those of the other part.
    """
    random = torch.Generator().manual_seed(seed)
    group = torch.arange(people) % groups
    likely = torch.where(group[:, None] == group, 0.12, 0.015)
    upper = (torch.rand(people, people, generator=random) < likely).triu(1).float()
    features = torch.randn(people, 12, generator=random)
    features[:, :groups] += 0.9 * torch.nn.functional.one_hot(group, groups)
    tested = torch.rand(people, generator=random) < 0.4
    known, judged = group.masked_fill(tested, -1), group.masked_fill(~tested, -1)
    return Rows(features, known, features, judged), upper + upper.T
