"""Data and worlds for trainings on ratings, series and rewards."""

import torch
from torch.nn import functional

from examples.zoo import datasets, samples

READERS, BOOKS = 500, 64


def ratings(seed: int) -> samples.Pair:
    """Who rates what, as numbers (N, 2), and the rating (N,) standardised: 500 digits rate the 64 pixels by ink."""
    table = datasets.digits(seed).inputs[:READERS]
    who, what = torch.meshgrid(torch.arange(READERS), torch.arange(BOOKS), indexing="ij")
    pairs = torch.stack([who.reshape(-1), what.reshape(-1)], 1)
    return samples.split(seed, pairs, (table.reshape(-1) - table.mean()) / table.std(), share=0.6)


def signals(seed: int, *, count: int = 800, length: int = 48, ahead: int = 1) -> samples.Pair:
    """Loads of power (count, length, 1): two periods and a noise, and what comes next (count, ahead)."""
    random = torch.Generator().manual_seed(seed)
    phases = 6.28 * torch.rand(count, 2, 1, generator=random)
    heights = 0.5 + torch.rand(count, 2, 1, generator=random)
    hours = torch.arange(length + ahead) * 6.2832
    waves = heights[:, 0] * torch.sin(hours / 24 + phases[:, 0]) + heights[:, 1] * torch.sin(hours / 9 + phases[:, 1])
    values = waves + 0.15 * torch.randn(waves.shape, generator=random)
    return samples.split(seed, values[:, :length, None], values[:, length:])


WALLS = (6, 7, 12, 18)
GOAL = 24


def moved(places: torch.Tensor, moves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns where one is in a maze of 5 by 5 after a move, the reward, and whether one is there."""
    down = (places // 5 + torch.tensor([-1, 1, 0, 0])[moves]).clamp(0, 4)
    across = (places % 5 + torch.tensor([0, 0, -1, 1])[moves]).clamp(0, 4)
    after = 5 * down + across
    after = torch.where(torch.isin(after, torch.tensor(WALLS)), places, after)
    there = (after == GOAL).float()
    return after, there, there


def hot(places: torch.Tensor) -> torch.Tensor:
    """Returns places of the maze as one-hot rows."""
    return functional.one_hot(places, 25).float()


def solved(policy: torch.nn.Module) -> float:
    """Returns from which share of the maze's places the policy's best moves lead to the goal."""
    starts = torch.tensor([place for place in range(24) if place not in WALLS])
    places, done = starts, torch.zeros(len(starts))
    for _ in range(12):
        with torch.no_grad():
            places, _, there = moved(places, policy(hot(places)).argmax(1))
        done = done.maximum(there)
    return done.mean().item()
