"""The total gradient norm, which is known for every step, whether it is measured in full or not."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tracker_adapters.emitter import Emitter

from debuggers.detectors import Finding, total_detectors
from debuggers.detectors.observation import Observation
from debuggers.detectors.total_gradient import TotalLimit, ZeroTotalPeriod
from debuggers.gradients.batch_noise import BatchNoise
from debuggers.gradients.parameters import Gradients
from debuggers.gradients.step_probe import GradientReading, PendingReading, probe_gradients
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.series_names import norm_names
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

ALL = "all gradients"
"""What findings call them."""
(_SERIES,) = norm_names("gradients", ())


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a step that is not measured in full.

    Attributes:
        reading: None while the gradients are on a device.
        asks_for_more: Whether something begins at this step, so that it should be measured in full.
    """

    reading: GradientReading | None
    asks_for_more: bool = False


@dataclass(slots=True, eq=False)
class _Probed:
    """A probed step, until it is known whether it is measured in full."""

    step: int
    time_ns: int
    found: Gradients | None
    pending: PendingReading
    expected_overflow: bool
    begun: list[Finding] | None = None


class TotalGradient:
    """Judges the total of each step, from a probe or from the measurement, and emits it where only a probe was.

    Attributes:
        steps: Steps whose total was seen on the host.
        non_finite_steps: Those of them at which it was not finite.
        limit: The largest norm that breaks no rule.
        on_reading: Called with each step and its total norm, once that is on the host.
    """

    def __init__(
        self,
        emitter: Emitter | None,
        arrivals: ArrivalQueue,
        announce: Callable[[list[Finding]], None],
        noise: BatchNoise | None = None,
    ) -> None:
        self.steps = self.non_finite_steps = 0
        self.on_reading: Callable[[int, float], None] | None = None
        self._emitter, self._arrivals, self._announce = emitter, arrivals, announce
        self._detectors, self._noise = total_detectors(), BatchNoise() if noise is None else noise
        self.limit, self._turns = TotalLimit(), ZeroTotalPeriod()
        self._was_faulty = False
        self._probed: _Probed | None = None

    def probe(self, step: int, found: Gradients, scale: torch.Tensor | None, *, expected_overflow: bool) -> Probe:
        """Probes the gradients of a step; ``leave_out`` or ``claim`` then decides whether it is measured in full."""
        pending = probe_gradients(found.tensors, scale)
        self._probed = _Probed(step, time.time_ns(), found, pending, expected_overflow)
        if not pending.ready():
            return Probe(None)
        reading = pending.resolve()
        self._probed.begun = self._see(step, reading, expected_overflow=expected_overflow)
        return Probe(reading, asks_for_more=bool(self._probed.begun))

    def probed_gradients(self, step: int) -> Gradients | None:
        """Returns the gradients of a step that is probed and waits, for a measurement of the same moment; else None."""
        return self._probed.found if self._probed is not None and self._probed.step == step else None

    def leave_out(self) -> None:
        """Notes that the probed step is not measured in full: emits its total, and announces what begins with it."""
        probed, self._probed = self._probed, None
        if probed is not None:
            probed.found = None  # what waits for a device keeps no gradients alive
            self._arrivals.push(probed.pending, partial(self._take, probed))

    def claim(self, step: int) -> list[Finding] | None:
        """Notes that a step is measured in full, and returns what began with it; None if no probe has seen it."""
        probed, self._probed = self._probed, None
        return probed.begun if probed is not None and probed.step == step else None

    def see_table(self, step: int, table: SummaryTable, *, expected_overflow: bool) -> list[Finding]:
        """Takes the measurement of a step that was not probed, and returns what begins with it."""
        finite = not table.non_finite.any()
        reading = GradientReading(table.total_l2 if finite else math.nan, finite)
        return self._see(step, reading, expected_overflow=expected_overflow)

    def findings(self, named: Sequence[Finding]) -> list[Finding]:
        """Returns the findings so far, without those that findings about single tensors cover at the same time.

        Args:
            named: The findings about single tensors.
        """
        return [finding for finding in self._detectors.findings() if not any(_covers(one, finding) for one in named)]

    def _see(self, step: int, reading: GradientReading, *, expected_overflow: bool) -> list[Finding]:
        self.steps += 1
        self.non_finite_steps += not reading.finite
        if self.on_reading is not None:
            self.on_reading(step, reading.total_norm)
        limit = min(self.limit.highest, self.limit.value() * self._noise.factor(step))
        self.limit.push(reading.total_norm)
        too_many_zeros = self._turns.push(reading.total_norm)
        if reading.finite and reading.total_norm <= limit and not too_many_zeros and not self._was_faulty:
            return []  # a detector need not see what came before the first fault
        self._was_faulty = True
        values = {
            "norm": reading.total_norm,
            "limit": limit,
            "non_finite": not reading.finite,
            "too_many_zeros": too_many_zeros,
        }
        columns = {name: np.array([value], np.float64) for name, value in values.items()}
        return self._detectors.see(Observation(step, (ALL,), np.ones(1, np.bool_), columns, expected_overflow))

    def _take(self, probed: _Probed) -> None:
        reading = probed.pending.resolve()
        begun = probed.begun
        if begun is None:
            begun = self._see(probed.step, reading, expected_overflow=probed.expected_overflow)
        if self._emitter is not None:
            self._emitter.scalar(_SERIES, reading.total_norm, step=probed.step, time_ns=probed.time_ns)
        self._announce(begun)


def _covers(named: Finding, total: Finding) -> bool:
    return named.kind == total.kind and named.step <= total.last_step and total.step <= named.last_step
