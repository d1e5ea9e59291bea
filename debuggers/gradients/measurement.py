"""Measures the gradients of a step as the optimizer is about to use them, or only their total norm."""

import logging
import time
from functools import partial
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.gradients.findings import GradientFindings
from debuggers.gradients.loss_scale import measure_unscaled, overflow_is_expected, scale_in_gradients
from debuggers.gradients.parameters import Gradients
from debuggers.gradients.total_gradient import Probe
from debuggers.measurement.arrival_queue import ArrivalQueue, Arrived, Measurement
from debuggers.measurement.summary_stream import SummaryStream
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

_log = logging.getLogger(__name__)


class GradientMeasurement:
    """Takes gradients without the loss scale that is still in them, emits what it finds, and has it judged.

    Attributes:
        scaler: The loop's GradScaler, if known.
        steps: Steps of which every gradient was measured and judged.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | None,
        scaler: torch.amp.GradScaler | None,
        findings: GradientFindings,
        arrivals: ArrivalQueue,
        *,
        emitter: Emitter | None,
        histogram_every: int | None,
        measures_each: bool,
    ) -> None:
        """``measures_each`` is off where only the norm of all gradients is looked at."""
        self.scaler, self.steps = scaler, 0
        self._has_warned, self._measures_each = False, measures_each
        self._optimizer, self._findings, self._arrivals = optimizer, findings, arrivals
        self._stream = SummaryStream("gradients", emitter, histogram_every=histogram_every)

    def can_measure(self, found: Gradients) -> bool:
        """Whether gradients have values; says once where they have none."""
        if not found.tensors[0].is_meta:
            return True
        if not self._has_warned:
            self._has_warned = True
            _log.warning("the gradients lie on the meta device, which holds no values: none of them is measured")
        return False

    def probe_total(self, step: int, found: Gradients) -> Probe:
        """Looks at the norm of all; see ``TotalGradient.probe``."""
        scale = scale_in_gradients(self.scaler, self._optimizer)
        overflow = overflow_is_expected(self.scaler, self._optimizer)
        return self._findings.total.probe(step, found, scale, expected_overflow=overflow)

    def measure(self, step: int, found: Gradients, table: SummaryTable | None) -> SummaryTable | None:
        """Measures each of them, unless ``table`` holds that already.

        Returns:
            The summaries in the order of the gradients; None while they are on a device.
        """
        if not self._measures_each:
            if self._findings.total.probed_gradients(step) is None:
                self.probe_total(step, found)
            self._findings.total.leave_out()
            return table
        measured: Measurement = (
            measure_unscaled(found.tensors, scale_in_gradients(self.scaler, self._optimizer))
            if table is None
            else Arrived(table)
        )
        overflow = overflow_is_expected(self.scaler, self._optimizer)
        on_host = measured.ready()
        begun = self._findings.total.claim(step)
        take = partial(
            self._take, step, found.names, measured, expected_overflow=overflow, time_ns=time.time_ns(), begun=begun
        )
        self._arrivals.push(measured, take)
        return measured.resolve() if on_host else None

    def close(self) -> None:
        """Emits what is left of the histograms."""
        self._stream.drain()

    def _take(self, step: int, names: tuple[str, ...], measured: Measurement, *, time_ns: int, **known: Any) -> None:
        table = measured.resolve()
        self._stream.take(step, names, table, time_ns)
        self._findings.see_gradients(step, names, table, **known)
        self.steps += 1
