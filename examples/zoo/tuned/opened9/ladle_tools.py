"""What the kitchen's and the garden's trainings share: loaders, a schedule, a loop, small nets and measures."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Session, Watch

Batches = Iterator[Any]


def ladled(rows: TensorDataset, size: int, steps: int, **options: Any) -> Batches:
    """Yields that many shuffled batches, epoch after epoch."""
    loader = DataLoader(rows, size, **{"shuffle": True, "drop_last": True, **options})
    while True:
        for batch in loader:
            if steps == 0:
                return
            steps -= 1
            yield batch


def simmered(optimizer: optim.Optimizer, steps: int, warm: int = 15) -> optim.lr_scheduler.LambdaLR:
    """A linear warm-up, and a cosine to a hundredth."""

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))

    return optim.lr_scheduler.LambdaLR(optimizer, factor)


def cooked(
    watch: Watch,
    model: nn.Module,
    optimizer: optim.Optimizer,
    batches: Batches,
    criterion: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    *,
    steps: int,
    check: Callable[[Session], None] | None = None,
) -> None:
    """Trains in the usual order, under a warm-up and a cosine, and checks the model forty times less often."""
    session = watch(model, optimizer)
    schedule = simmered(optimizer, steps)
    model.train()
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        if check is not None and step % 40 == 0:
            check(session)


def checked(
    model: nn.Module, rows: TensorDataset, criterion: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
) -> Callable[[Session], None]:
    """Returns a function that validates on those rows and tells the session."""

    def check(session: Session) -> None:
        with session.validating():
            session.validation(criterion(served(model, rows.tensors[0]), rows.tensors[1]).item())

    return check


def served(model: nn.Module, x: Tensor) -> Any:
    """Returns the model's outputs in eval mode, without gradients."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        out = model(x)
    model.train(was_training)
    return out


def right(model: nn.Module, rows: TensorDataset) -> float:
    """Returns the accuracy on those rows."""
    return samples.accuracy(served(model, rows.tensors[0]), rows.tensors[1])


def share(model: nn.Module, rows: TensorDataset) -> float:
    """Returns R² on those rows."""
    return samples.explained(served(model, rows.tensors[0]), rows.tensors[1])


def balanced(guessed: Tensor, labels: Tensor) -> float:
    """Returns the mean recall of the classes that occur."""
    recalls = [(guessed[labels == label] == label).float().mean() for label in labels.unique()]
    return torch.stack(recalls).mean().item()


def layers(*sizes: int, between: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A net of linear layers with an activation between them."""
    parts: list[nn.Module] = []
    for above, below in pairwise(sizes):
        parts += [nn.Linear(above, below), between()]
    return nn.Sequential(*parts[:-1])


def flat_numerals(seed: int) -> samples.Pair:
    """Standardised digits (N, 64), and their numbers."""
    train, test = (TensorDataset(part.tensors[0].flatten(1), part.tensors[1]) for part in samples.numerals(seed))
    return train, test


def wines(seed: int) -> samples.Pair:
    """Thirteen measurements of a wine as they are, and its cultivar."""
    values, labels = samples._table("load_wine")
    return samples.split(seed, torch.from_numpy(values).float(), torch.from_numpy(labels))


def glances(numbers: int = 10) -> nn.Sequential:
    """A small convolutional net for digits of eight by eight pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, numbers),
    )  # fmt: skip
