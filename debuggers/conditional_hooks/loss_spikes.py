"""Detects spikes of the loss."""

from collections.abc import Callable

from debuggers.detectors.signals.loss_spike import LossSpike
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.torch_import import torch

MIN_POINTS = 16
"""Fewer than the detector waits for: whoever registers a hook wants to see early spikes, too."""


class LossSpikes:
    """Says when a loss is a spike by the rule ``LossSpike``, from 16 finite losses on.

    NaN and infinities are no spikes: they are findings. A loss on a device is judged once it has arrived on the host.
    """

    def __init__(self, on_spike: Callable[[int, float, float], None]) -> None:
        """Takes what is called with the step, the loss and its limit."""
        self._on_spike = on_spike
        self._rule = LossSpike(MIN_POINTS)
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
        spike = self._rule.check(step, "loss", loss)
        if spike is not None:
            self._on_spike(step, *spike)
