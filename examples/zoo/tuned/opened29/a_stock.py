"""What several modules train on: drawings of blobs, readings of a weather station, batches, and one step of a loop."""

from typing import Any

import torch
from torch import nn

from examples.zoo.cases import Session


def advance(session: Session, optimizer: torch.optim.Optimizer, loss: torch.Tensor, *told: Any) -> None:
    """Takes one ordinary step, and tells its inputs, outputs and targets."""
    inputs, outputs, targets = told
    optimizer.zero_grad()
    loss.backward()
    session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
    optimizer.step()


def drawn(size: int, *columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns random rows of the columns."""
    rows = torch.randint(len(columns[0]), (size,))
    return tuple(column[rows] for column in columns)


def judged(model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """Returns the outputs in eval mode, without gradients."""
    model.eval()
    with torch.no_grad():
        return model(*inputs)


def blobs(seed: int, *, count: int = 900, side: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy pictures (N, 1, side, side) of a soft bright blob, and its centre (N, 2) in pixels."""
    random = torch.Generator().manual_seed(300 + seed)
    centres = torch.rand(count, 2, generator=random) * (side - 4) + 2
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    distances = (rows - centres[:, 0, None, None]) ** 2 + (columns - centres[:, 1, None, None]) ** 2
    pictures = 2.5 * (-distances / 5).exp() + 0.4 * torch.randn(count, side, side, generator=random)
    return (pictures - pictures.mean())[:, None], centres


def weather(seed: int, *, count: int = 900, length: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows (N, length, 3) of pressure in pascals, temperature and humidity, and the coming temperature (N, 1)."""
    random = torch.Generator().manual_seed(700 + seed)
    hours = torch.arange(length + 1) + 500 * torch.rand(count, 1, generator=random)
    front = torch.randn(count, 1, generator=random)
    drift = front * torch.linspace(0, 1, length + 1)
    pressure = 101_325 - 900 * drift + 60 * torch.randn(count, length + 1, generator=random)
    warmth = 12 + 5 * (hours * 0.26).sin() - 4 * drift + 0.7 * torch.randn(count, length + 1, generator=random)
    humidity = 0.6 - 0.02 * (warmth - 12) + 0.03 * torch.randn(count, length + 1, generator=random)
    windows = torch.stack([pressure, warmth, humidity], -1)
    return windows[:, :-1], (warmth[:, -1:] - 12) / 5
