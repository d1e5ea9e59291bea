"""What is done about a faulty step: one object for each handling type."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from debuggers.torch_import import torch
from stability.gradients.measure import Gradients
from stability.handling.config import NaNHandlingConfig
from stability.handling.repair import replace_non_finite, scale_gradients, zero_gradients
from stability.handling.skipping import StepSkipper, check_outside_closure
from stability.handling.snapshots import SnapshotRing, megabytes
from stability.results.step import HandlingAction


@dataclass(frozen=True, slots=True)
class FaultyStep:
    """A step whose loss or gradients are not finite on some rank, and how bad it is: the same on every rank.

    ``faulty`` are the names of this rank's gradients that are not finite. ``share`` is the largest share, among the
    ranks, of gradient elements that are not finite. ``row`` is the number of faulty steps in a row, with this one.
    ``scaler_skips`` says that a GradScaler has seen infinities and will not let the optimizer step.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    gradients: Gradients
    faulty: list[str]
    loss_finite: bool
    share: float
    row: int
    scaler_skips: bool


class Handled(NamedTuple):
    """What was done. ``restored_step`` is the step of the snapshot; ``exhausted`` that there was none to go back to."""

    action: HandlingAction
    restored_step: int | None = None
    exhausted: bool = False


class Handler(Protocol):
    """A handling type."""

    def handle(self, step: FaultyStep) -> Handled:
        """Does something about a faulty step."""


class Detect:
    """Does nothing."""

    def handle(self, step: FaultyStep) -> Handled:
        """Leaves everything as it is."""
        return Handled("none")


class Repair:
    """Makes the gradients finite. If only the loss is not finite, the gradients are applied unchanged.

    A GradScaler skips a step whatever is done to gradients that it has seen; then they are dropped.
    """

    def __init__(self, action: HandlingAction, repair: Callable[[Gradients, list[str]], None], skip: Skip) -> None:
        self._action: HandlingAction = action
        self._repair, self._skip = repair, skip

    def handle(self, step: FaultyStep) -> Handled:
        """Changes the gradients in place."""
        if step.scaler_skips:
            return self._skip.handle(step)
        if not step.share:
            return Handled("none")
        self._repair(step.gradients, step.faulty)
        return Handled(self._action)


class Skip:
    """Drops the gradients and makes the next step of the optimizer change nothing."""

    def __init__(self, skipper: StepSkipper) -> None:
        self._skipper = skipper

    def handle(self, step: FaultyStep) -> Handled:
        """Skips the step."""
        self._skipper.skip(step.model, step.optimizer)
        return Handled("skipped")


class Restore:
    """Goes back to the last good snapshot, and skips. Where none is left it only skips."""

    def __init__(self, config: NaNHandlingConfig, scaler: torch.amp.GradScaler | None, skip: Skip) -> None:
        self._config, self._scaler, self._skip = config, scaler, skip
        self._rings: weakref.WeakKeyDictionary[torch.optim.Optimizer, SnapshotRing] = weakref.WeakKeyDictionary()

    def note_good_step(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
        """Takes a snapshot when one is due."""
        ring = self._rings.setdefault(optimizer, SnapshotRing(self._config))
        ring.note_good_step(model, optimizer, self._scaler, number)

    def handle(self, step: FaultyStep) -> Handled:
        """Restores the training in place."""
        self._skip.handle(step)
        ring = self._rings.get(step.optimizer)
        restored = None if ring is None else ring.restore(step.model, step.optimizer, self._scaler)
        if restored is None:
            return Handled("skipped", exhausted=True)
        return Handled("restored", restored_step=restored)

    def memory_mb(self) -> float:
        """Returns what the snapshots take, in MB of 2**20 bytes."""
        return megabytes(list(self._rings.values()))


class Adaptive:
    """Restores after several faulty steps in a row; skips when the loss or many elements are not finite; replaces."""

    def __init__(self, config: NaNHandlingConfig, replace: Repair, skip: Skip, restore: Restore) -> None:
        self._config = config
        self._replace, self._skip, self._restore = replace, skip, restore

    def handle(self, step: FaultyStep) -> Handled:
        """Chooses by severity."""
        if step.row >= self._config.adaptive_restore_after:
            return self._restore.handle(step)
        if not step.loss_finite or step.share > self._config.adaptive_share:
            return self._skip.handle(step)
        return self._replace.handle(step)


class Handlers:
    """The parts of a configuration: the handler, and what it needs between faulty steps."""

    def __init__(self, config: NaNHandlingConfig, scaler: torch.amp.GradScaler | None) -> None:
        kind = config.handling_type
        self._kind = kind
        self.skipper = StepSkipper()
        skip = Skip(self.skipper)
        self.restore = Restore(config, scaler, skip) if kind in ("restore", "adaptive") else None
        self.chosen = _choose(config, skip, self.restore)

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Raises StabilityError inside a closure where a step cannot be skipped."""
        if self._kind in ("skip", "restore", "adaptive"):
            check_outside_closure(optimizer, self._kind)


def _choose(config: NaNHandlingConfig, skip: Skip, restore: Restore | None) -> Handler:
    replace = Repair(
        "replaced", partial(replace_non_finite, nan_value=config.nan_value, inf_value=config.inf_value), skip
    )
    if restore is not None:
        return restore if config.handling_type == "restore" else Adaptive(config, replace, skip, restore)
    others: dict[str, Handler] = {
        "detect": Detect(),
        "replace": replace,
        "gradient_zeroing": Repair("zeroed", zero_gradients, skip),
        "gradient_scaling": Repair("scaled", partial(scale_gradients, factor=config.scale_factor), skip),
        "skip": skip,
    }
    return others[config.handling_type]
