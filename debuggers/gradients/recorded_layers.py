"""Gradients that a caller has and hands over layer by layer."""

import time
from functools import partial
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import check_name, check_step

from debuggers.gradients.findings import GradientFindings
from debuggers.measurement.arrival_queue import ArrivalQueue, Measurement
from debuggers.measurement.measure import measure
from debuggers.measurement.series_names import histogram_names, statistic_names
from debuggers.tensors.inspection import as_tensor


class RecordedLayers:
    """Measures what it is given, emits it, and shows it to the detectors; each layer has its own count of steps.

    Attributes:
        counts: How often each layer was recorded.
    """

    def __init__(
        self, emitter: Emitter | None, arrivals: ArrivalQueue, findings: GradientFindings, *, with_histograms: bool
    ) -> None:
        self._emitter, self._arrivals, self._findings = emitter, arrivals, findings
        self._with_histograms = with_histograms
        self._steps: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    @property
    def last_step(self) -> int:
        """The last step of any of them; -1 before the first."""
        return max(self._steps.values(), default=-1)

    def record(self, layer: str, gradients: Any, step: int | None) -> None:
        """See ``GradientDebugger.record_gradient_flow``."""
        layer = check_name("gradients", layer)
        number = self._steps.get(layer, -1) + 1 if step is None else check_step("gradients", layer, step)
        values = as_tensor(layer, gradients)
        if values.numel() == 0:
            raise ArtifactError(f"gradients of {layer!r} hold none: shape {tuple(values.shape)}; expected some")
        measured = measure({layer: values})
        self._steps[layer], self.counts[layer] = number, self.counts.get(layer, 0) + 1
        self._arrivals.push(measured, partial(self._take, number, layer, measured, time.time_ns()))

    def _take(self, step: int, layer: str, measured: Measurement, time_ns: int) -> None:
        table = measured.resolve()
        if self._emitter is not None:
            series = statistic_names("gradients", "norm", (layer,))
            self._emitter.scalars(series, table.norms, step=step, time_ns=time_ns)
            if self._with_histograms:
                names = histogram_names("gradients", (layer,))
                self._emitter.histograms(names, table.columns, step=step, time_ns=time_ns)
        self._findings.see_layer(step, layer, table)
