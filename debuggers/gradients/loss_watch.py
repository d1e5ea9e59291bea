"""Checks at every step whether the loss is finite; a loss on a device is checked once it has arrived on the host."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from debuggers.detectors import Detectors, Finding, NonFiniteLoss, Observation
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.torch_import import torch


class LossWatch:
    """Checks the loss of each step. The loss is unscaled, so a GradScaler cannot be the cause of an overflow."""

    def __init__(self, announce: Callable[[list[Finding]], None] | None) -> None:
        self._announce = announce
        self._detectors = Detectors([NonFiniteLoss()])
        self._arrivals = ArrivalQueue()
        self._was_faulty = False
        self._last_faulty: int | None = None

    def see(self, step: int, loss: torch.Tensor | float) -> bool:
        """Takes a loss, and returns whether a fault begins with it, as far as that is known on the host.

        Of a step with a faulty loss no other one counts.

        Args:
            step: The training step.
            loss: A number, or a tensor of one element.
        """
        if not isinstance(loss, torch.Tensor):
            return self._judge(step, float(loss))
        if loss.is_cpu:
            return self._judge(step, float(loss.detach()))
        waiting = DeferredTensor(loss.detach().reshape(()))
        self._arrivals.push(waiting, partial(self._take, step, waiting))
        return False

    def findings(self) -> list[Finding]:
        """Returns the findings so far; waits for the device."""
        self._arrivals.drain()
        return self._detectors.findings()

    def _take(self, step: int, waiting: DeferredTensor) -> None:
        self._judge(step, float(waiting.resolve()))

    def _judge(self, step: int, value: float) -> bool:
        faulty = not math.isfinite(value)
        if step == self._last_faulty or (not faulty and not self._was_faulty):
            return False
        self._was_faulty = True
        if faulty:
            self._last_faulty = step
        values = {"non_finite": np.array([float(faulty)])}
        begun = self._detectors.see(Observation(step, ("loss",), np.ones(1, np.bool_), values))
        if begun and self._announce is not None:
            self._announce(begun)
        return bool(begun)
