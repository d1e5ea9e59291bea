"""What the trainings on pictures and signals read: digits on photographs, oscillations, and orbits."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn import datasets as sets
from torch.nn import functional


@dataclass(frozen=True)
class Scenes:
    """Digits that were pasted onto photographs.

    Attributes:
        pictures: (N, 1, side, side), from 0 to 1.
        ink: (N, side, side), how much of the digit covers a pixel, from 0 to 1.
        boxes: (N, 4), left, top, width and height in pixels.
        labels: (N,), which digit it is.
    """

    pictures: torch.Tensor
    ink: torch.Tensor
    boxes: torch.Tensor
    labels: torch.Tensor

    def __getitem__(self, rows: torch.Tensor | slice) -> "Scenes":
        return Scenes(self.pictures[rows], self.ink[rows], self.boxes[rows], self.labels[rows])

    def __len__(self) -> int:
        return len(self.pictures)


def scenes(seed: int, *, count: int = 800, side: int = 16, largest: int = 12) -> tuple[Scenes, Scenes]:
    """Returns scenes to train on, and a quarter as many to judge by; each has one digit of 8 to ``largest`` pixels."""
    random = np.random.default_rng(seed)
    photographs = [picture.mean(2) / 255 for picture in sets.load_sample_images().images]
    pixels, numbers = sets.load_digits(return_X_y=True)
    total = count + count // 4
    chosen = random.permutation(len(pixels))[:total]
    pictures, ink = torch.zeros(total, 1, side, side), torch.zeros(total, side, side)
    boxes = torch.zeros(total, 4)
    for row, index in enumerate(chosen):
        photograph = photographs[random.integers(len(photographs))]
        top, left = (int(random.integers(length - side)) for length in photograph.shape)
        behind = torch.from_numpy(photograph[top : top + side, left : left + side]).float()
        width, height = (int(random.integers(8, largest + 1)) for _ in range(2))
        left, top = int(random.integers(side - width + 1)), int(random.integers(side - height + 1))
        digit = torch.from_numpy(pixels[index]).float().view(1, 1, 8, 8) / 16
        digit = functional.interpolate(digit, (height, width), mode="bilinear", align_corners=False)[0, 0]
        ink[row, top : top + height, left : left + width] = digit
        pictures[row, 0] = 0.5 * behind * (1 - ink[row]) + ink[row]
        boxes[row] = torch.tensor([left, top, width, height])
    found = Scenes(pictures, ink, boxes, torch.from_numpy(numbers[chosen]))
    return found[:count], found[slice(count, None)]


def oscillations(seed: int, *, count: int = 800, length: int = 32, noise: float = 0.1) -> tuple[torch.Tensor, ...]:
    """Returns oscillations (N, length) as a noisy sensor takes them, as they are, and their rates and damping."""
    random = np.random.default_rng(seed)
    times = np.linspace(0, 4, length)
    rate, damping = random.uniform(1.5, 6, count), random.uniform(0.05, 0.6, count)
    phase, size = random.uniform(0, 2 * np.pi, count), random.uniform(0.7, 1.3, count)
    clean = size[:, None] * np.exp(-damping[:, None] * times) * np.cos(rate[:, None] * times + phase[:, None])
    noisy = clean + noise * random.standard_normal(clean.shape)
    both = np.stack([rate, damping], 1)
    return torch.from_numpy(noisy).float(), torch.from_numpy(clean).float(), torch.from_numpy(both).float()


def pendulums(seed: int, *, count: int = 600, duration: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns angles and speeds (N, 2) of pendulums, and what they are after some time, by small steps of Heun's."""
    random = np.random.default_rng(seed)
    state = np.stack([random.uniform(-2.5, 2.5, count), random.uniform(-2, 2, count)], 1)
    before, step = state.copy(), duration / 50
    for _ in range(50):
        slope = np.stack([state[:, 1], -4 * np.sin(state[:, 0])], 1)
        ahead = state + step * slope
        state = state + step / 2 * (slope + np.stack([ahead[:, 1], -4 * np.sin(ahead[:, 0])], 1))
    return torch.from_numpy(before).float(), torch.from_numpy(state).float()


def explained(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the share of the targets' variance that the outputs explain; -1 at least, NaN if it is NaN."""
    return (1 - (outputs - targets).square().mean() / targets.var(0).mean()).clamp(min=-1).item()
