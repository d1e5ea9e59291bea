"""What several modules train on: digits on a dark canvas, digits that were turned, and patches with their edges."""

from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn import datasets as sets
from torch.nn import functional

from examples.zoo.samples import Pair, split


def placed(seed: int, *, count: int = 800, side: int = 14) -> Pair:
    """Noisy pictures (N, 1, side, side) with one digit, where its ink is, and its centre (x, y) in pixels."""
    random = np.random.default_rng(seed)
    digits = sets.load_digits().images / 16
    pictures = 0.1 * random.standard_normal((count, side, side))
    masks, centres = np.zeros((count, side, side)), np.zeros((count, 2))
    for row in range(count):
        down, right = random.integers(side - 7, size=2)
        digit = digits[random.integers(len(digits))]
        pictures[row, down : down + 8, right : right + 8] += digit
        masks[row, down : down + 8, right : right + 8] = digit > 0.4
        centres[row] = right + 3.5, down + 3.5
    grey = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float()
    return split(seed, grey[:, None], torch.from_numpy(masks).float(), torch.from_numpy(centres).float())


def turned(seed: int, *, count: int = 1000) -> Pair:
    """Standardised digits (N, 1, 8, 8), sorted by how many quarters they were turned by, and that number."""
    images = _digits()[np.random.default_rng(seed).permutation(len(_digits()))[:count]]
    rows = torch.cat([torch.rot90(part, turns, (2, 3)) for turns, part in enumerate(images.chunk(4))])
    return split(seed, rows, torch.arange(4).repeat_interleave(count // 4))


def edges(seed: int, *, count: int = 500, side: int = 10) -> Pair:
    """Standardised grey patches (N, 1, side, side) of two photographs, and how steep they are at each pixel."""
    random = np.random.default_rng(seed)
    found, pictures = [], [picture.mean(2) for picture in _photographs()]
    for _ in range(count):
        picture = pictures[random.integers(2)]
        top, left = (random.integers(extent - side) for extent in picture.shape)
        found.append(picture[top : top + side, left : left + side])
    grey = torch.from_numpy(np.stack(found)).float()[:, None]
    grey = (grey - grey.mean()) / grey.std()
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
    kernels = torch.stack([across, across.T])[:, None]
    steep = functional.conv2d(functional.pad(grey, (1, 1, 1, 1), "replicate"), kernels).square().sum(1).sqrt()
    return split(seed, grey, steep / steep.std())


def coloured(seed: int, *, count: int = 1500, side: int = 8) -> Pair:
    """Colour patches (N, 3, side, side) as bytes, and which of two photographs they are of."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=count)
    found = []
    for label in labels:
        picture = _photographs()[label]
        top, left = (random.integers(extent - side) for extent in picture.shape[:2])
        found.append(picture[top : top + side, left : left + side])
    return split(seed, torch.from_numpy(np.stack(found)).movedim(-1, 1).contiguous(), torch.from_numpy(labels))


def overlap(logits: torch.Tensor, masks: torch.Tensor) -> float:
    """Returns intersection over union of the true masks and those where the logits are positive."""
    found, true = logits.reshape(masks.shape) > 0, masks > 0.5
    return ((found & true).sum() / (found | true).sum().clamp(min=1)).item()


def nearest(codes: torch.Tensor, labels: torch.Tensor, others: torch.Tensor, wanted: torch.Tensor) -> float:
    """Returns the share of other codes whose nearest code has the wanted label; 0 if there are NaNs."""
    if not (codes.isfinite().all() and others.isfinite().all()):
        return 0.0
    return (labels[torch.cdist(others, codes).argmin(1)] == wanted).float().mean().item()


@cache
def _digits() -> torch.Tensor:
    images = torch.from_numpy(sets.load_digits().images).float()[:, None]
    return (images - images.mean()) / images.std()


@cache
def _photographs() -> list[Any]:
    return list(sets.load_sample_images().images)
