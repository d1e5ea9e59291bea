"""What several modules train on: digits placed on a larger canvas, and grey patches of photographs."""

import torch

from examples.zoo import datasets
from examples.zoo.samples import Pair, split


def placed(seed: int, *, count: int = 700, side: int = 16) -> Pair:
    """Digits on a noisy canvas (N, 1, side, side), their ink (N, side, side), and their centres (N, 2) in pixels."""
    random = torch.Generator().manual_seed(seed)
    digits = datasets.digits(seed, images=True).inputs[:count, 0]
    pictures = 0.2 * torch.rand(count, side, side, generator=random)
    masks = torch.zeros(count, side, side)
    corners = torch.randint(side - 7, (count, 2), generator=random)
    for picture, mask, digit, (top, left) in zip(pictures, masks, digits, corners.tolist(), strict=True):
        picture[top : top + 8, left : left + 8] += 0.8 * digit
        mask[top : top + 8, left : left + 8] = (digit > 0.4).float()
    pictures = (pictures - pictures.mean()) / pictures.std()
    return split(seed, pictures[:, None], masks, corners + 3.5)


def grey(seed: int, *, count: int = 1200, size: int = 8) -> Pair:
    """Grey patches (N, 1, size, size) with mean 0 and deviation 1."""
    pictures = datasets.patches(seed, count=count, size=size).view(-1, 1, size, size)
    return split(seed, (pictures - pictures.mean()) / pictures.std())


def overlap(logits: torch.Tensor, masks: torch.Tensor) -> float:
    """Returns the intersection of positive logits with masks, divided by their union."""
    found, true = logits.flatten() > 0, masks.flatten() > 0.5
    return ((found & true).sum() / (found | true).sum().clamp(min=1)).item()
