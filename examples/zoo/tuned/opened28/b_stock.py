"""What several modules train on: discs and crosses with masks, moved digits, batches, and a loop of classes."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy


def discs(seed: int, *, count: int = 700, side: int = 16) -> Data:
    """Noisy pictures (N, 1, side, side) of a bright disc among dark squares, and masks (N, 1, side, side) of it."""
    random = torch.Generator().manual_seed(seed)
    places = torch.rand(count, 4, 1, 1, generator=random) * (side - 6) + 3
    sizes = 1.5 + 2 * torch.rand(count, 1, 1, generator=random)
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    disc = ((rows - places[:, 0]) ** 2 + (columns - places[:, 1]) ** 2 < sizes**2).float()
    square = torch.maximum((rows - places[:, 2]).abs(), (columns - places[:, 3]).abs()) < 2
    pictures = disc - 0.8 * square.float() * (1 - disc) + 0.5 * torch.randn(count, side, side, generator=random)
    pictures, masks = pictures[:, None], disc[:, None]
    first = count * 3 // 4
    return Data(pictures[:first], masks[:first], pictures[first:], masks[first:])


def moved(pictures: torch.Tensor) -> torch.Tensor:
    """Returns the pictures (N, C, H, W), each moved by up to one pixel in both directions."""
    height, width = pictures.shape[-2:]
    padded = functional.pad(pictures, (1, 1, 1, 1))
    tops, lefts = torch.randint(3, (2, len(pictures))).tolist()
    cut = [one[:, top : top + height, left : left + width] for one, top, left in zip(padded, tops, lefts, strict=True)]
    return torch.stack(cut)


def drawn(size: int, *columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns random rows of the columns."""
    rows = torch.randint(len(columns[0]), (size,))
    return tuple(column[rows] for column in columns)


def overlap(found: torch.Tensor, masks: torch.Tensor) -> float:
    """Returns the intersection over the union of two sets of pixels."""
    found, masks = found.bool(), masks.bool()
    return ((found & masks).sum() / (found | masks).sum().clamp(min=1)).item()


def classes(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]],
    *,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> float:
    """Trains a classifier on the batches, and returns its accuracy."""
    session = watch(model, optimizer)
    model.train()
    for inputs, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return accuracy(model, data)
