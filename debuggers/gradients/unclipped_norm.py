"""The norm of all gradients before a loop clips them, as its clipping knows it, or else by a pass over them."""

import time
from functools import partial

from tracker_adapters.emitter import Emitter

from debuggers.gradients.parameters import Parameters
from debuggers.gradients.step_probe import PendingReading, probe_gradients
from debuggers.instrumentation.isolation import Isolation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.series_names import norm_names

(UNCLIPPED,) = norm_names("unclipped_gradients", ())
"""The norm of all gradients before they are clipped; ``total_norm/gradients`` is that which the optimizer uses."""


class UnclippedNorm:
    """Emits it step by step; a device is not waited for.

    Attributes:
        step: The last step that has one; -1 before.
    """

    def __init__(
        self, parameters: Parameters | None, emitter: Emitter | None, arrivals: ArrivalQueue, isolation: Isolation
    ) -> None:
        self.step = -1
        self._parameters, self._emitter, self._arrivals, self._isolation = parameters, emitter, arrivals, isolation
        self._taken: PendingReading | None = None
        self._is_told = False

    def take(self) -> None:
        """Goes through the gradients of the coming step, unless the clipping of the last one knew its norm."""
        if self._is_told or self._emitter is None or self._parameters is None:
            return
        with self._isolation.guard("measuring gradients before they are clipped"):
            gradients = self._parameters.gradients().tensors
            self._taken = probe_gradients(gradients) if gradients else None

    def emit(self, step: int, known: float | PendingReading | None) -> None:
        """Emits that of a step, if it was taken or is known; call it at each.

        Args:
            step: The training step.
            known: What the loop's clipping has computed, without a loss scale; it may still be on a device.
        """
        taken, self._taken = self._taken, None
        self._is_told = known is not None
        reading = known if taken is None else taken
        if reading is None or self._emitter is None:
            return
        self.step = step
        if isinstance(reading, float):
            self._emitter.scalar(UNCLIPPED, reading, step=step)
            return
        with self._isolation.guard("measuring gradients before they are clipped"):
            self._arrivals.push(reading, partial(self._put, self._emitter, step, time.time_ns(), reading))

    def _put(self, emitter: Emitter, step: int, time_ns: int, reading: PendingReading) -> None:
        emitter.scalar(UNCLIPPED, reading.resolve().total_norm, step=step, time_ns=time_ns)
