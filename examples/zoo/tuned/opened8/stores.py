"""What the trainings of this half learn from: tags of source text, words of files, and neighbours in a picture."""

import io
import keyword
import re
import sysconfig
import token
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from examples.zoo.datasets import Data
from examples.zoo.samples import Pair, split

TAGS = 6
"""Whether a character is of a name, a keyword, a string or comment, a number, an operator, or of none of them."""


def tagged(seed: int, *, length: int = 24, count: int = 1400) -> Data:
    """Windows (count, length) of Python's sources as codes below 96, and the tag of every character."""
    codes, tags = _tagged()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    windows, labels = (torch.from_numpy(np.stack([row[at : at + length] for at in starts])) for row in (codes, tags))
    return of_pair(split(seed, windows, labels))


def of_pair(pair: Pair) -> Data:
    """Returns the columns of both datasets."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def loader(pair: Pair, size: int) -> DataLoader[tuple[Tensor, ...]]:
    """Returns shuffled batches of the training rows."""
    return DataLoader(pair[0], batch_size=size, shuffle=True)


def usage(seed: int) -> Data:
    """Which file and which word (N, 2), and how often it stands there: logarithms (N,), standardised."""
    counts = _usage()
    files, words = np.nonzero(counts + 1)
    values = torch.from_numpy(np.log1p(counts[files, words])).float()
    values = (values - values.mean()) / values.std()
    return of_pair(split(seed, torch.from_numpy(np.stack([files, words], 1)), values, share=0.75))


def company(*, window: int = 4) -> Tensor:
    """How often one of 120 words stands near another one (120, 120), the nearer the more."""
    words = _words(_paths()[:24])
    common = {word: index for index, (word, _) in enumerate(Counter(words).most_common(120))}
    found = np.zeros((len(common), len(common)), np.float32)
    codes = [common.get(word, -1) for word in words]
    for distance in range(1, window + 1):
        for left, right in zip(codes, codes[distance:], strict=False):
            if left >= 0 and right >= 0:
                found[left, right] += 1 / distance
                found[right, left] += 1 / distance
    return torch.from_numpy(found)


@cache
def beside() -> Tensor:
    """Which of 64 pixels touch each other or are the same (64, 64), each row with a sum of one."""
    rows, columns = torch.arange(64) // 8, torch.arange(64) % 8
    near = ((rows[:, None] - rows).abs() <= 1) & ((columns[:, None] - columns).abs() <= 1)
    return near / near.sum(1, keepdim=True)


def nearest(features: Tensor, count: int) -> Tensor:
    """Returns the normalised adjacency (N, N) of the graph of so many nearest rows, both ways, with loops."""
    distances = torch.cdist(features, features)
    links = torch.zeros_like(distances).scatter_(1, distances.topk(count + 1, largest=False).indices, 1.0)
    links = torch.maximum(links, links.T)
    root = links.sum(1).rsqrt()
    return root[:, None] * links * root


def _paths() -> list[Path]:
    return sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*.py"))[:70]


def _words(paths: list[Path]) -> list[str]:
    return [
        word for path in paths for word in re.findall(r"[a-z]{2,}", path.read_text(encoding="utf-8", errors="replace"))
    ]


@cache
def _usage() -> Any:
    counted = [Counter(_words([path])) for path in _paths()]
    common = [word for word, _ in sum(counted, Counter()).most_common(90)]
    return np.array([[one[word] for word in common] for one in counted], np.float64)


@cache
def _tagged() -> tuple[Any, Any]:
    text = "".join(
        (Path(sysconfig.get_paths()["stdlib"]) / name).read_text(encoding="utf-8")
        for name in ("csv.py", "shlex.py", "queue.py", "sched.py")
    )
    text = text.encode("ascii", "replace").decode()
    lines = text.splitlines(keepends=True)
    starts = np.cumsum([0] + [len(line) for line in lines])
    tags = np.full(len(text), 5)
    kinds = {token.NAME: 0, token.STRING: 2, tokenize.COMMENT: 2, token.NUMBER: 3, token.OP: 4}
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        if one.type in kinds:
            kind = 1 if keyword.iskeyword(one.string) else kinds[one.type]
            (row, column), (last_row, last_column) = one.start, one.end
            tags[starts[row - 1] + column : starts[last_row - 1] + last_column] = kind
    codes = np.clip(np.frombuffer(text.encode(), np.uint8).astype(np.int64) - 31, 0, 95)
    return codes, tags
