"""Tries remedies after faults, one at a time, keeps what helps and takes back what does not."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.closing import Closing
from debuggers.torch_import import torch
from stability.recovery.config import RecoveryConfig
from stability.recovery.excluded_datapoints import ExcludedDatapoints
from stability.recovery.memory_relief import is_out_of_memory, relieve
from stability.recovery.remedies import Fault, Remedy, remedies

Change: TypeAlias = Literal["applied", "kept", "undone", "exhausted"]
_KEPT_EVENTS = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoveryEvent:
    """A remedy that was applied, kept after its trial, or undone, and why; ``exhausted``: none was left to try."""

    step: int
    change: Change
    remedy: str
    message: str


class Recovery(Closing):
    """Keeps a training going: what sets it off, what it does and what comes of it is in ``events``.

    Give it to ``NumericalStabilityManager(recovery=...)``, with a ``FirstNaNFinder`` for the remedies that need an
    operator or datapoints by name. As a context manager it is closed when the block ends. Where several ranks train
    together only ``lower_learning_rate`` is tried, and only with a handling type on which they agree: the others would
    make ranks differ.

    Attributes:
        excluded: The datapoints that are left out; hand it to a ``RecoverySampler``.
    """

    def __init__(self, config: RecoveryConfig, emitter: Emitter | None = None) -> None:
        """Makes a recovery that has seen no fault.

        Args:
            config: The remedies that are switched on.
            emitter: Where events are emitted as alerts ``recovery``.
        """
        self.excluded = ExcludedDatapoints()
        self._config, self._emitter = config, emitter
        self._remedies = remedies(config, self.excluded)
        self._events: deque[RecoveryEvent] = deque(maxlen=_KEPT_EVENTS)
        self._untried = list(self._remedies)
        self._trial: Remedy | None = None
        self._since = 0
        self._said_exhausted = False
        self._starved = 0

    @property
    def events(self) -> tuple[RecoveryEvent, ...]:
        """The last 1,000 events, the oldest first."""
        return tuple(self._events)

    def look(self, step: Fault) -> None:
        """Takes each step, faulty or not."""
        if step.is_faulty:
            self.note_fault(step)
        elif not step.stats["scaler_step"]:
            self.note_good_step(step.step)

    def note_good_step(self, step: int) -> None:
        """Takes a step without a fault; after enough of them a remedy on trial has helped, and stays."""
        self._since += 1
        if self._since < self._config.trial_steps:
            return
        if self._trial is not None:
            self._tell(step, "kept", self._trial.name, f"no fault occurred for {self._since} steps")
            self._trial = None
        # A fault after so long is another one, for which everything may be tried again.
        self._untried = list(self._remedies)
        self._said_exhausted = False

    def note_fault(self, fault: Fault) -> RecoveryEvent | None:
        """Takes a faulty step: undoes what did not help, tries what is next, and returns what was applied, or None."""
        self._since = 0
        trial, self._trial = self._trial, None
        if trial is not None and trial.has_failed(fault):
            self._tell(fault.step, "undone", trial.name, f"a fault occurred again: {trial.undo()}")
        elif trial is not None:
            self._tell(fault.step, "kept", trial.name, "a different fault occurred")
            self._untried.insert(0, trial)
        while self._untried:
            remedy = self._untried.pop(0)
            done = remedy.apply(fault)
            if done is not None:
                self._trial = remedy
                return self._tell(fault.step, "applied", remedy.name, done)
        if self._remedies and not self._said_exhausted:
            self._said_exhausted = True
            self._tell(fault.step, "exhausted", "", "all enabled remedies have been tried")
        return None

    @contextmanager
    def relieved(self, model: torch.nn.Module, step: int) -> Iterator[None]:
        """Survives that a training step runs out of memory: the rest of the block is left out, and memory given back.

        The block is a whole step, from ``zero_grad`` to ``optimizer.step()``, and the process trains alone: other ranks
        would wait for its gradients. Nothing happens unless ``relieve_memory`` is on.

        Args:
            model: Its gradients are dropped.
            step: The step's number, for the event.

        Raises:
            Exception: Whatever the block raises beside that, and the one about memory after ``memory_attempts`` steps.
        """
        try:
            yield
        except Exception as error:
            if not self._config.relieve_memory or not is_out_of_memory(error):
                raise
            self._starved += 1
            if self._starved >= self._config.memory_attempts:
                raise
            folder = self._config.memory_snapshot_folder
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            done = relieve(model, error, Path(folder) if folder else None)
            self._tell(step, "applied", "relieve_memory", f"the step was dropped, {done}: {reason}")
        else:
            self._starved = 0

    def close(self) -> None:
        """Ends what remedies do in model and optimizer: hooks and lowered rates. Calling it again does nothing."""
        for remedy in self._remedies:
            remedy.close()

    def _tell(self, step: int, change: Change, remedy: str, message: str) -> RecoveryEvent:
        event = RecoveryEvent(step, change, remedy, message)
        self._events.append(event)
        text = f"{remedy or 'recovery'} {change}: {message}"
        _log.warning("step %d: %s", step, text, extra={"stepscope": {"step": step, "remedy": remedy, "change": change}})
        if self._emitter is not None:
            self._emitter.alert("recovery", text, step=step, level="warning", told=True)
        return event
