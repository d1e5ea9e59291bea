"""Detects spikes of the loss."""

import math
from collections import deque
from collections.abc import Callable

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.torch_import import torch

WINDOW = 128
MIN_POINTS = 16
SIGMAS = 6.0
SMALLEST_SHARE = 0.1


class LossSpikes:
    """Says when a loss exceeds mean + max(6 σ, 0.1 |mean|) of the last 128 finite losses, once there are 16.

    σ is the sample standard deviation. Window and factor are those of OLMo's spike test; the smallest share is
    stepscope's own, because a loss that has converged has almost no spread. NaN and infinities are no spikes: they are
    findings. A loss on a device is judged once it has arrived on the host.
    """

    def __init__(self, on_spike: Callable[[int, float, float], None]) -> None:
        """Takes what is called with the step, the loss and its limit."""
        self._on_spike = on_spike
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._arrivals = ArrivalQueue()

    def see(self, step: int, loss: torch.Tensor | float) -> None:
        """Takes the loss of a step, a number or a tensor of one element."""
        if not isinstance(loss, torch.Tensor):
            self._judge(step, float(loss))
        elif loss.is_cpu:
            self._judge(step, float(loss.detach()))
        else:
            waiting = DeferredTensor(loss.detach().reshape(()))
            self._arrivals.push(waiting, lambda: self._judge(step, float(waiting.resolve())))

    def drain(self) -> None:
        """Judges what is still on a device, waiting for it."""
        self._arrivals.drain()

    def _judge(self, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            return
        limit = self._limit()
        self._window.append(loss)
        if loss > limit:
            self._on_spike(step, loss, limit)

    def _limit(self) -> float:
        points = len(self._window)
        if points < MIN_POINTS:
            return math.inf
        mean = math.fsum(self._window) / points
        variance = math.fsum((loss - mean) ** 2 for loss in self._window) / (points - 1)
        return mean + max(SIGMAS * math.sqrt(variance), SMALLEST_SHARE * abs(mean))
