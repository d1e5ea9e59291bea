"""What the trainings on pictures share: tasks, their loop, and networks."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch
from examples.zoo.samples import Pair


class Task(nn.Module):
    """A net with the loss that it is trained by."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)

    def training_step(self, batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the outputs and the loss."""
        outputs = self(batch[0])
        return outputs, functional.cross_entropy(outputs, batch[1])

    @torch.no_grad()
    def quality(self, test: TensorDataset) -> float:
        """Returns the accuracy in eval mode."""
        self.eval()
        outputs = self(test.tensors[0])
        self.train()
        return samples.accuracy(outputs, test.tensors[1])


class Painting(Task):
    """Fills in the lower half of a digit."""

    def training_step(self, batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the outputs and the squared error."""
        outputs = self(batch[0])
        return outputs, functional.mse_loss(outputs, batch[1])

    @torch.no_grad()
    def quality(self, test: TensorDataset) -> float:
        """Returns R² in eval mode."""
        self.eval()
        outputs = self(test.tensors[0])
        self.train()
        return samples.explained(outputs, test.tensors[1])


def run(
    watch: Watch,
    task: Task,
    optimizer: torch.optim.Optimizer,
    pair: Pair,
    *,
    epochs: int,
    batch_size: int = 40,
    scheduler: Any = None,
    per_batch: bool = False,
    training: bool = True,
) -> float:
    """Trains a task, validates after each epoch, and returns its quality; the scheduler steps per epoch or batch."""
    session = watch(task, optimizer)
    task.train(training)
    for _ in range(epochs):
        for batch in DataLoader(pair[0], batch_size, shuffle=True, drop_last=True):
            outputs, loss = task.training_step(batch)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch[0], outputs=outputs, targets=batch[1])
            optimizer.step()
            if scheduler is not None and per_batch:
                scheduler.step()
        if scheduler is not None and not per_batch:
            scheduler.step()
        with torch.no_grad(), session.validating():
            task.eval()
            _, loss = task.training_step(list(pair[1].tensors))
            task.train(training)
        session.validation(loss.item())
    return task.quality(pair[1])


def convolutional(channels: int = 3, classes: int = 2, width: int = 12, norm: bool = False) -> nn.Sequential:
    """Returns two strided convolutions and a head, for eight by eight pixels."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width) if norm else nn.Identity(), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width) if norm else nn.Identity(),
        nn.ReLU(), nn.Flatten(), nn.Linear(8 * width, classes),
    )  # fmt: skip


def dense(features: int, outputs: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns a net with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(features, 40), activation(), nn.Linear(40, 40), activation(), nn.Linear(40, outputs)
    )
