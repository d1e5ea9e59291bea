"""Emits the recorded activations step by step, and passes them to the detectors."""

from collections.abc import Sequence

from tracker_adapters.emitter import Emitter

from debuggers.activations.findings import ActivationFindings
from debuggers.activations.unit_activity import UnitActivity
from debuggers.detectors import Finding
from debuggers.measurement.joined_summaries import JoinedSummaries
from debuggers.measurement.series_names import statistic_names
from debuggers.measurement.summary_stream import OnTable, SummaryStream
from debuggers.measurement.summary_table import SummaryTable


class ActivationEmission:
    """Takes the outputs of a step, and the gradients with respect to them; waits for no device before ``close``.

    Attributes:
        units: Counts how often units are active.
        last_step: The last step that had outputs; 0 before the first.
    """

    def __init__(self, emitter: Emitter | None, *, histogram_every: int | None, on_table: OnTable | None) -> None:
        """The arguments are those of ``ActivationMonitor``."""
        self.units = UnitActivity()
        self.last_step = 0
        self._emitter, self._on_table = emitter, on_table
        self._findings = ActivationFindings(emitter)
        self._units_waiting = False
        self._outputs = SummaryStream(
            "activations", emitter, histogram_every=histogram_every, on_table=self._take_outputs
        )
        self._gradients = SummaryStream(
            "activation_gradients", emitter, histogram_every=histogram_every, on_table=self._take_gradients
        )

    def push(self, step: int, outputs: JoinedSummaries, gradients: JoinedSummaries) -> None:
        """Adds a step, and emits in order all steps whose values are on the host."""
        if outputs.names:
            self.last_step = step
            self._outputs.push(step, outputs.names, outputs)
            self.units.end_step()
            self._units_waiting = True
        if gradients.names:
            self._gradients.push(step, gradients.names, gradients)
        self._findings.see_units(step, self.units.take_window())

    def findings(self) -> list[Finding]:
        """Returns all findings so far, by their first step."""
        return self._findings.findings()

    def close(self) -> None:
        """Emits the rest, waiting for the device; calling it again does nothing."""
        self._outputs.drain()
        self._gradients.drain()
        if self._units_waiting:
            self._units_waiting = False
            self._findings.see_units(self.last_step, self.units.read())

    def _take_outputs(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        self._emit_zero_fractions("activations", step, names, table)
        self._findings.see_outputs(step, names, table)
        if self._on_table is not None:
            self._on_table(step, names, table)

    def _take_gradients(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        self._emit_zero_fractions("activation_gradients", step, names, table)

    def _emit_zero_fractions(self, group: str, step: int, names: Sequence[str], table: SummaryTable) -> None:
        if self._emitter is not None:
            series = statistic_names(group, "zero_fraction", tuple(names))
            self._emitter.scalars(series, table.zero_fraction, step=step)
