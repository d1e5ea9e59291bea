"""Simulated experiments for the ``field_`` modules, and how good a model is on rows that are held out."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from examples.zoo import samples

Measure = Callable[[torch.Tensor, torch.Tensor], float]


def springs(seed: int, *, count: int = 1500) -> samples.Pair:
    """Stiffness, damping, start and time (N, 4) of a mass on a damped spring, and where it is then (N, 1)."""
    random = np.random.default_rng(seed)
    stiffness, damping = random.uniform(1, 4, count), random.uniform(0.1, 0.8, count)
    start, time = random.uniform(-1, 1, count), random.uniform(0, 3, count)
    frequency = np.sqrt(stiffness - damping**2 / 4)
    place = start * np.exp(-damping * time / 2) * np.cos(frequency * time)
    rows = np.stack([stiffness, damping, start, time], 1)
    return samples.split(seed, torch.from_numpy(rows).float(), torch.from_numpy(place).float()[:, None])


def throws(seed: int, *, count: int = 1500) -> samples.Pair:
    """Speed in m/s, angle in degrees and drag (N, 3) of a thrown ball, and how far it flies in metres (N, 1)."""
    random = np.random.default_rng(seed)
    speed, angle, drag = random.uniform(5, 30, count), random.uniform(15, 75, count), random.uniform(0, 0.05, count)
    velocity = np.stack([speed * np.cos(np.radians(angle)), speed * np.sin(np.radians(angle))])
    place = np.zeros_like(velocity)
    for _ in range(400):
        flying = place[1] >= 0
        velocity = velocity - 0.02 * (drag * np.hypot(*velocity) * velocity + np.array([[0.0], [9.81]]))
        place = np.where(flying, place + 0.02 * velocity, place)
    rows = np.stack([speed, angle, drag], 1)
    return samples.split(seed, torch.from_numpy(rows).float(), torch.from_numpy(place[0]).float()[:, None])


def rods(seed: int, *, count: int = 1200) -> samples.Pair:
    """Temperatures (N, 16) along a rod, in units of their deviation, and the same rod a while later (N, 16)."""
    random = np.random.default_rng(seed)
    before = random.normal(size=(count, 16)).cumsum(1)
    before = (before - before.mean()) / before.std()
    after = before.copy()
    for _ in range(12):
        padded = np.pad(after, ((0, 0), (1, 1)), mode="edge")
        after = after + 0.25 * (padded[:, 2:] - 2 * after + padded[:, :-2])
    return samples.split(seed, torch.from_numpy(before).float(), torch.from_numpy(after).float())


def judged(model: nn.Module, test: TensorDataset, measure: Measure = samples.accuracy) -> float:
    """Returns the measure of the model's outputs, in eval mode, for the test's inputs and targets."""
    model.eval()
    with torch.no_grad():
        return measure(model(test.tensors[0]), test.tensors[1])
