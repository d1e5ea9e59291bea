"""The loops that the cases share, each in another person's style."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Session, Watch
from examples.zoo.tuned.opened7.supplies import Rows

Loss = Callable[[Tensor, Tensor], Tensor]


def _nothing() -> None:
    """Does nothing."""


def falling(optimizer: torch.optim.Optimizer, steps: int) -> Callable[[], Any]:
    """Returns what lets the rate fall along a cosine, to be called behind each step."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps).step


def drill(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Loss = functional.cross_entropy,
    *,
    ready: Callable[[], Any] = _nothing,
    after: Callable[[], Any] = _nothing,
) -> None:
    """Trains with one step a batch; ``ready`` is called between backward pass and step, ``after`` behind the step."""
    session = watch(model, optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        value = loss(out, y)
        value.backward()
        ready()
        session.step(value, inputs=x, outputs=out, targets=y)
        optimizer.step()
        after()


Told = dict[str, Any]
"""Inputs, outputs and targets of a step, as far as the loop knows them."""


def rounds(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    objective: Callable[[], tuple[Tensor, Told]],
    *,
    after: Callable[[], Any] = _nothing,
) -> None:
    """Trains on whatever the objective computes: a loss, and what there is to tell of it."""
    session = watch(model, optimizer)
    done = 0
    while done < steps:
        loss, told = objective()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, **told)
        optimizer.step()
        after()
        done += 1


def closures(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Loss = functional.cross_entropy,
    *,
    clear: bool = True,
) -> None:
    """Trains by ``optimizer.step(closure)``, as L-BFGS wants it."""
    session = watch(model, optimizer)
    for x, y in batches:

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            if clear:
                optimizer.zero_grad()
            value = loss(model(x), y)
            value.backward()
            return value

        session.step(optimizer.step(closure), inputs=x, targets=y)


def accumulate(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Rows,
    *,
    micro: int,
    count: int,
    steps: int,
    divide: bool = True,
    loss: Loss = functional.cross_entropy,
) -> None:
    """Takes each step after ``count`` backward passes of micro-batches, whose losses are divided by their number."""
    session = watch(model, optimizer)
    batches = rows.draws(micro, count * steps)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(count):
            x, y = next(batches)
            out = model(x)
            value = loss(out, y)
            (value / count if divide else value).backward()
        session.step(value, inputs=x, outputs=out, targets=y)
        optimizer.step()


class Trainer:
    """A class with a method for each part of a step, as in many a project; a case overrides what it does otherwise."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        criterion: Loss = functional.cross_entropy,
        scheduler: Any = None,
        max_norm: float | None = None,
    ) -> None:
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.scheduler, self.max_norm = scheduler, max_norm
        self.global_step = 0

    def fit(self, watch: Watch, rows: Rows, *, epochs: int, batch_size: int = 32, validate: bool = True) -> None:
        """Trains for some epochs, each with a validation behind it."""
        session = watch(self.model, self.optimizer)
        self.model.train()
        for _ in range(epochs):
            for x, y in rows.loader(batch_size):
                self.training_step(session, x, y)
                self.global_step += 1
            if validate:
                self.validation_epoch(session, rows)
            self.on_epoch_end()

    def training_step(self, session: Session, x: Tensor, y: Tensor) -> None:
        """Takes one step."""
        outputs = self.model(x)
        loss = self.criterion(outputs, y)
        self.backward(loss)
        self.clip()
        session.step(loss, inputs=x, outputs=outputs, targets=y)
        self.optimizer_step()

    def backward(self, loss: Tensor) -> None:
        """Computes this batch's gradients."""
        self.optimizer.zero_grad()
        loss.backward()

    def clip(self) -> None:
        """Limits the gradients."""
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)

    def optimizer_step(self) -> None:
        """Moves the weights, and the schedule."""
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()

    def validation_epoch(self, session: Session, rows: Rows) -> None:
        """Computes the loss of the other rows."""
        self.model.eval()
        with session.validating(), torch.no_grad():
            loss = self.criterion(self.model(rows.x_test), rows.y_test)
        session.validation(loss)
        self.model.train()

    def on_epoch_end(self) -> None:
        """Does nothing, unless a case has something to do there."""
