"""What a small project on handwritten digits shares: its dataset, its network, and its trainer."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset

from examples.zoo.cases import Watch

Image = torch.Tensor
Transform = Callable[[Image], Image]


def scaled(image: Image) -> Image:
    return image / 16.0 - 0.3


class Glyphs(Dataset[tuple[torch.Tensor, int]]):
    """Digits as (1, 8, 8) images, after a transform, with their numbers."""

    def __init__(self, seed: int, *, train: bool, transform: Transform = scaled, limit: int | None = None) -> None:
        bunch = load_digits()
        parts = train_test_split(bunch.images, bunch.target, test_size=0.3, random_state=seed, stratify=bunch.target)
        images, labels = (parts[0], parts[2]) if train else (parts[1], parts[3])
        self.images = torch.as_tensor(images, dtype=torch.float32).unsqueeze(1)[:limit]
        self.labels = [int(label) for label in labels][:limit]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.images[index]), self.labels[index]


class Reader(nn.Module):
    """Two convolutions, and a classifier."""

    def __init__(self, *, drop: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16) if norm else nn.Identity(), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.drop = nn.Dropout(drop)
        self.classifier = nn.Linear(64, 10)

    def forward(self, images: Image) -> torch.Tensor:
        return self.classifier(self.drop(self.features(images).flatten(1)))


class Trainer:
    """Runs epochs, and measures the accuracy."""

    def __init__(
        self, watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, *, criterion: Any = None,
        after_step: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.optimizer = model, optimizer
        self.criterion = criterion or nn.CrossEntropyLoss()
        self.after_step = after_step
        self.session = watch(model, optimizer)

    def epoch(self, batches: Iterable[Any]) -> None:
        for images, labels in batches:
            self.batch(images, labels)

    def batch(self, images: Image, labels: torch.Tensor) -> float:
        scores = self.model(images)
        loss = self.criterion(scores, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.session.step(loss, inputs=images, outputs=scores, targets=labels)
        self.optimizer.step()
        if self.after_step:
            self.after_step()
        return float(loss.detach())

    @torch.no_grad()
    def accuracy(self, batches: Iterable[Any], *, switch: bool = True) -> float:
        """Returns the share of right answers; ``switch`` puts the model in eval mode for it."""
        if switch:
            self.model.eval()
        right = total = 0
        for images, labels in batches:
            right += int((self.model(images).argmax(1) == labels).sum())
            total += len(labels)
        if switch:
            self.model.train()
        return right / total


def loader(seed: int, *, train: bool = True, batch: int = 48, shuffle: bool = True, **options: Any) -> Any:
    """Returns a loader of the digits, of the training rows shuffled."""
    return DataLoader(Glyphs(seed, train=train, **options), batch_size=batch, shuffle=shuffle and train)
