"""What the trainings of sequences, generators, policies and graphs learn from: sources, digits and simulations."""

import io
import keyword
import math
import sysconfig
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from sklearn.neighbors import kneighbors_graph

ALPHABET = "\n abcdefghijklmnopqrstuvwxyz0()[]{}.,:=+-*/_'\"#%<>@"
"""The characters that are told apart; digits are 0, and all others have the code after the last one."""
SYMBOLS = len(ALPHABET) + 1
KINDS = 6
"""A character belongs to white space, a name, a keyword, a number or an operator, a string, or a comment."""
Halves = tuple[torch.Tensor, ...]


def encoded(text: str) -> Any:
    """Returns the codes of a text's characters."""
    places = {letter: code for code, letter in enumerate(ALPHABET)}
    return np.array([places.get("0" if one.isdigit() else one.lower(), SYMBOLS - 1) for one in text])


def passages(seed: int, length: int, count: int, *files: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns windows (count, length) of some sources to train on, and 300 others from the sources' last fifth."""
    random = np.random.default_rng(seed)
    text = np.concatenate([_codes(file)[: len(_codes(file)) * 4 // 5] for file in files])
    rest = np.concatenate([_codes(file)[len(_codes(file)) * 4 // 5 :] for file in files])
    drawn = [
        np.stack([codes[start : start + length] for start in random.integers(len(codes) - length, size=size)])
        for codes, size in ((text, count), (rest, 300))
    ]
    return torch.from_numpy(drawn[0]), torch.from_numpy(drawn[1])


def kinds_of_characters(seed: int, length: int = 32, count: int = 900) -> Halves:
    """Returns windows of a source and the kind of each character; and 300 others with theirs."""
    codes, kinds = _tagged("shutil.py")
    random = np.random.default_rng(seed)
    border = len(codes) * 3 // 4
    starts = random.integers(border - length, size=count), random.integers(border, len(codes) - length, size=300)
    return tuple(
        torch.from_numpy(np.stack([values[start : start + length] for start in some]))
        for some in starts
        for values in (codes, kinds)
    )


def digits(seed: int, *, share: float = 0.75) -> Halves:
    """Returns pixels (N, 64) from 0 to 1 and numbers to train on, and others of both."""
    pixels, numbers = _loaded("load_digits")
    return _parted(seed, share, torch.from_numpy(pixels).float() / 16, torch.from_numpy(numbers))


def measurements(name: str, seed: int, *, share: float = 0.7, raw: bool = False) -> Halves:
    """Returns a table's features, standardised unless raw, and targets to train on, and others of both."""
    features, targets = _loaded(f"load_{name}")
    rows, labels, test_rows, test_labels = _parted(
        seed, share, torch.from_numpy(features).float(), torch.from_numpy(targets)
    )
    if raw:
        return rows, labels, test_rows, test_labels
    std, mean = torch.std_mean(rows, 0)
    return (rows - mean) / std, labels, (test_rows - mean) / std, test_labels


def neighbourhood(features: torch.Tensor, neighbours: int = 8) -> torch.Tensor:
    """Returns the normalised adjacency, with self loops, of each row's nearest rows."""
    near = torch.from_numpy(kneighbors_graph(features.numpy(), neighbours).toarray()).float()
    near = ((near + near.T) > 0).float() + torch.eye(len(near))
    degrees = near.sum(1).rsqrt()
    return degrees[:, None] * near * degrees


def swings(seed: int, count: int = 600, length: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns angles (count, length) of damped pendulums, and the rate and the damping of each."""
    random = torch.Generator().manual_seed(seed)
    rate = 1 + 3 * torch.rand(count, generator=random)
    damping = 0.05 + 0.6 * torch.rand(count, generator=random)
    angle, speed = 0.5 + 1.5 * torch.rand(count, generator=random), torch.zeros(count)
    seen = []
    for step in range(length * 5):
        speed = speed - 0.02 * (rate.square() * angle.sin() + damping * speed)
        angle = angle + 0.02 * speed
        if step % 5 == 0:
            seen.append(angle)
    return torch.stack(seen, 1), torch.stack([rate, damping], 1)


class Poles:
    """Many poles on carts, of which each is pushed to the left or the right; a fallen one begins anew."""

    def __init__(self, count: int, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.state = self._fresh(count)

    def push(self, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the next states and which poles have fallen."""
        _, speed, angle, turn = self.state.unbind(1)
        force = 20.0 * right - 10.0
        pushed = (force + 0.05 * turn.square() * angle.sin()) / 1.1
        turning = (9.8 * angle.sin() - angle.cos() * pushed) / (0.5 * (4 / 3 - 0.1 * angle.cos().square() / 1.1))
        moving = pushed - 0.05 * turning * angle.cos() / 1.1
        after = self.state + 0.02 * torch.stack([speed, moving, turn, turning], 1)
        fallen = (after[:, 2].abs() > 0.21) | (after[:, 0].abs() > 2.4)
        self.state = torch.where(fallen[:, None], self._fresh(len(after)), after)
        return after, fallen

    def _fresh(self, count: int) -> torch.Tensor:
        return 0.1 * torch.rand(count, 4, generator=self.random) - 0.05


def uprightness(choose: Any, seed: int, steps: int = 200) -> float:
    """Returns the mean share of those steps that 40 poles stay up at first, under a policy."""
    poles = Poles(40, seed + 77)
    alive, total = torch.ones(40), 0.0
    with torch.no_grad():
        for _ in range(steps):
            _, fallen = poles.push(choose(poles.state).float())
            alive = alive * (~fallen).float()
            total += alive.mean().item()
    return total / steps


def shuffled(size: int, steps: int, *columns: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields that many full batches of rows, in a new order in each epoch."""
    while True:
        for rows in torch.randperm(len(columns[0])).split(size):
            if len(rows) < size:
                continue
            if steps == 0:
                return
            steps -= 1
            yield tuple(column[rows] for column in columns)


def share_right(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns how often the largest score is at the label."""
    return (scores.argmax(-1) == labels).float().mean().item()


def explained(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of the targets' variance that the outputs explain; -1 at least, and if it is NaN."""
    share = 1 - (outputs - targets).square().mean().item() / (targets - targets.mean(0)).square().mean().item()
    return -1.0 if math.isnan(share) else max(share, -1.0)


def _parted(seed: int, share: float, *columns: torch.Tensor) -> Halves:
    order = torch.randperm(len(columns[0]), generator=torch.Generator().manual_seed(31 + seed))
    border = int(share * len(order))
    return tuple(column[rows] for rows in (order[:border], order[border:]) for column in columns)


@cache
def _loaded(name: str) -> tuple[Any, Any]:
    return getattr(sets, name)(return_X_y=True)


@cache
def _codes(file: str) -> Any:
    return encoded(source(file))


@cache
def source(file: str) -> str:
    """Returns the text of a module of Python's library."""
    return (Path(sysconfig.get_paths()["stdlib"]) / file).read_text(encoding="utf-8")


@cache
def _tagged(file: str) -> tuple[Any, Any]:
    text = source(file)
    begins = np.cumsum([0, *(len(line) for line in text.splitlines(keepends=True))])
    kinds = np.zeros(len(text), np.int64)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = {
            tokenize.NAME: 2 if keyword.iskeyword(token.string) else 1,
            tokenize.NUMBER: 3,
            tokenize.OP: 3,
            tokenize.STRING: 4,
            tokenize.COMMENT: 5,
        }.get(token.type, 0)
        kinds[begins[token.start[0] - 1] + token.start[1] : begins[token.end[0] - 1] + token.end[1]] = kind
    return encoded(text), kinds
