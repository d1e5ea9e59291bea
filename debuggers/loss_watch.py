"""Sees at every step whether the loss is finite; one on a device is looked at when it has arrived."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from debuggers.arrival_queue import ArrivalQueue
from debuggers.deferred import DeferredTensor
from debuggers.detectors import Detectors, Finding, NonFiniteLoss, Observation
from debuggers.torch_import import torch


class LossWatch:
    """Judges the loss of each step."""

    def __init__(self, announce: Callable[[list[Finding]], None] | None) -> None:
        """Takes who tells what begins, if anybody does."""
        self._announce = announce
        self._detectors = Detectors([NonFiniteLoss()])
        self._arrivals = ArrivalQueue()
        self._was_faulty = False

    def see(self, step: int, loss: torch.Tensor | float, *, expected_overflow: bool) -> bool:
        """Takes a loss, and returns whether a fault begins with it, as far as that is known on the host.

        Args:
            step: The training step.
            loss: A number, or a tensor of one element.
            expected_overflow: Whether a GradScaler is at work, which skips steps that are not finite.
        """
        if not isinstance(loss, torch.Tensor):
            return self._judge(step, float(loss), expected_overflow=expected_overflow)
        if loss.is_cpu:
            return self._judge(step, float(loss.detach()), expected_overflow=expected_overflow)
        waiting = DeferredTensor(loss.detach().reshape(()))
        self._arrivals.push(waiting, partial(self._take, step, waiting, expected_overflow))
        return False

    def findings(self) -> list[Finding]:
        """Returns the findings so far; waits for the device."""
        self._arrivals.drain()
        return self._detectors.findings()

    def _take(self, step: int, waiting: DeferredTensor, expected_overflow: bool) -> None:
        self._judge(step, float(waiting.resolve()), expected_overflow=expected_overflow)

    def _judge(self, step: int, value: float, *, expected_overflow: bool) -> bool:
        faulty = not np.isfinite(value)
        if not faulty and not self._was_faulty:
            return False
        self._was_faulty = True
        values = {"non_finite": np.array([float(faulty)])}
        begun = self._detectors.see(Observation(step, ("loss",), np.ones(1, np.bool_), values, expected_overflow))
        if begun and self._announce is not None:
            self._announce(begun)
        return bool(begun)
