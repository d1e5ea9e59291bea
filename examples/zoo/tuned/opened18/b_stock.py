"""What several modules train on: a chaotic series, tagged source code, colour patches, and digits on photographs."""

import io
import keyword
import sysconfig
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from torch.utils.data import TensorDataset

from examples.zoo.samples import Pair, split

KINDS = ("layout", "name", "keyword", "operator", "literal", "comment")
SYMBOLS = 97


def series(seed: int, *, length: int = 32, count: int = 1200, ahead: int = 6) -> Pair:
    """Windows (N, length) of the Mackey-Glass equation, standardised, and for each value the one that comes later."""
    random = np.random.default_rng(seed)
    values = list(1.2 + 0.1 * random.standard_normal(18))
    for _ in range(count + length + ahead + 300):
        values.append(0.9 * values[-1] + 0.2 * values[-18] / (1 + values[-18] ** 10))
    track = torch.tensor(values[300:]).float()
    track = (track - track.mean()) / track.std()
    windows = track.unfold(0, length, 1)
    past, future = windows[:count], windows[ahead : count + ahead]
    cut = count * 3 // 4
    return TensorDataset(past[:cut], future[:cut]), TensorDataset(past[cut + length :], future[cut + length :])


def tagged(seed: int, *, length: int = 24, count: int = 1500) -> Pair:
    """Windows (N, length) of Python's sources as codes from 1 to 96, and each character's kind, as in ``KINDS``."""
    codes, kinds = _tagged()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    rows, marks = (np.stack([values[start : start + length] for start in starts]) for values in (codes, kinds))
    return split(seed, torch.from_numpy(rows), torch.from_numpy(marks))


def patches(seed: int, *, count: int = 1200, side: int = 8) -> Pair:
    """Colour patches (N, 3, side, side) of two photographs as bytes, and which of the two it is."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=count)
    found = []
    for label in labels:
        picture = _pictures()[label]
        top, left = (random.integers(extent - side) for extent in picture.shape[:2])
        found.append(picture[top : top + side, left : left + side])
    return split(seed, torch.from_numpy(np.stack(found)).movedim(-1, 1).contiguous(), torch.from_numpy(labels))


def drawn(seed: int, *, count: int = 800, side: int = 16) -> Pair:
    """Pictures (N, 1, side, side) of a digit somewhere on a dim photograph, standardised, and where its ink is."""
    random = np.random.default_rng(seed)
    digits, scenes = sets.load_digits().images / 16, [picture.mean(2) / 255 for picture in _pictures()]
    pictures, masks = np.zeros((count, side, side)), np.zeros((count, side, side))
    for picture, mask in zip(pictures, masks, strict=True):
        scene = scenes[random.integers(2)]
        top, left = (random.integers(extent - side) for extent in scene.shape)
        picture += 0.5 * scene[top : top + side, left : left + side]
        down, right = random.integers(side - 8, size=2)
        digit = digits[random.integers(len(digits))]
        picture[down : down + 8, right : right + 8] += 0.6 * digit
        mask[down : down + 8, right : right + 8] = digit > 0.4
    grey = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float()
    return split(seed, grey[:, None], torch.from_numpy(masks).float())


def overlap(logits: torch.Tensor, masks: torch.Tensor) -> float:
    """Returns intersection over union of the true masks and those where the logits are positive."""
    found, true = logits.reshape(masks.shape) > 0, masks > 0.5
    return ((found & true).sum() / (found | true).sum().clamp(min=1)).item()


@cache
def _pictures() -> list[Any]:
    return list(sets.load_sample_images().images)


@cache
def _tagged() -> tuple[Any, Any]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    codes, kinds = [], []
    for file in ("shlex.py", "bisect.py", "string.py", "textwrap.py", "sched.py", "cmd.py"):
        source = (folder / file).read_text(encoding="latin-1")
        marks = np.zeros(len(source), np.int64)
        begins = [0, *np.cumsum([len(line) for line in source.splitlines(keepends=True)])]
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            first, last = (begins[row - 1] + column for row, column in (token.start, token.end))
            marks[first:last] = _kind(token)
        values = np.frombuffer(source.encode("latin-1"), np.uint8).astype(np.int64)
        codes.append(np.clip(values - 31, 1, SYMBOLS - 1))
        kinds.append(marks)
    return np.concatenate(codes), np.concatenate(kinds)


def _kind(token: tokenize.TokenInfo) -> int:
    if token.type == tokenize.NAME:
        return 2 if keyword.iskeyword(token.string) else 1
    return {tokenize.OP: 3, tokenize.STRING: 4, tokenize.NUMBER: 4, tokenize.COMMENT: 5}.get(token.type, 0)
