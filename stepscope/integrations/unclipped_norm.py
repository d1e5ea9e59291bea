"""The norm of all gradients before a framework clips them."""

from collections.abc import Sequence
from typing import Any

from debuggers.gradients.step_probe import PendingReading, known_norm, probe_gradients
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.clip_calls import ClipObservation
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters
from stepscope.integrations.watched_training import UNCLIPPED, WatchedTraining


class UnclippedNorm:
    """The norm of the gradients that an optimizer uses, before they are clipped; a device is not waited for.

    Where the trainer clips by the norm, it is what torch has computed for that. Else, and at the first step, the
    gradients are gone through once more.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, training: WatchedTraining, *, by_trainer: bool) -> None:
        """``by_trainer``: whether the trainer clips, and not the module in a way of its own."""
        self._optimizer, self._training = optimizer, training
        self._own = frozenset(map(id, held_parameters(optimizer)))
        self._arrivals = ArrivalQueue()
        self._step = 0
        self._waits = False
        """Whether the clipping of the coming step has not begun."""
        self._was_told = self._is_told = False
        self._clipping = ClipObservation(self.see_clipping) if by_trainer else None

    def see(self) -> None:
        """Takes the gradients of the coming step."""
        self._was_told, self._is_told = self._is_told, False
        self._step, self._waits = self._training.next_step, True
        if not self._was_told:
            self._probe()

    def see_clipping(self, parameters: Sequence[Any], max_norm: float, total_norm: Any) -> None:
        """Takes the norm that torch has computed to clip the gradients of the coming step; called by torch."""
        if not self._waits or not any(id(one) in self._own for one in parameters):
            return
        self._waits, self._is_told = False, True
        if self._was_told:
            with self._training.isolation.guard("measuring gradients before they are clipped"):
                norm = known_norm(total_norm)
                if isinstance(norm, float):
                    self._emit(self._step, norm)
                elif norm is None:
                    self._probe()
                else:
                    self._push(norm)

    def stop(self) -> None:
        """Waits for the device, and emits what is left."""
        if self._clipping is not None:
            self._clipping.remove()
        self._arrivals.drain()

    def _probe(self) -> None:
        gradients = [one.grad for one in held_parameters(self._optimizer) if one.grad is not None]
        if gradients:
            self._push(probe_gradients(gradients))

    def _push(self, reading: PendingReading) -> None:
        step = self._step
        self._arrivals.push(reading, lambda: self._emit(step, reading.resolve().total_norm))

    def _emit(self, step: int, norm: float) -> None:
        if self._training.run is not None:
            self._training.run.scalar(UNCLIPPED, norm, step=step)
