"""Findings about gradients and updates: history and detectors see each step, and new findings are announced."""

from collections.abc import Callable, Sequence

from tracker_adapters.emitter import Emitter

from debuggers.detectors import Finding, announce, gradient_detectors
from debuggers.gradients.batch_noise import BatchNoise
from debuggers.gradients.flow import GradientFlowAnalysis, analyze
from debuggers.gradients.history import GradientHistory
from debuggers.gradients.total_gradient import TotalGradient
from debuggers.gradients.updates import Ratios
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.summary_table import SummaryTable


class GradientFindings:
    """Passes measured gradients and updates to history and detectors.

    Attributes:
        history: Statistics of the last measured steps.
        total: Judges the norm of all gradients together, of measured and of probed steps.
        noise: Knows which steps have smaller batches.
        order: Returns the modules in the order of their calls, as far as that is known.
        on_begun: Called with new findings, also with those about updates, which begin in ``optimizer.step``.
    """

    def __init__(
        self, emitter: Emitter | None, arrivals: ArrivalQueue, max_gradient_history: int, *, emits_total: bool
    ) -> None:
        self.history = GradientHistory(max_gradient_history)
        self.noise = BatchNoise()
        self.total = TotalGradient(emitter if emits_total else None, arrivals, self.announce, self.noise)
        self._emitter = emitter
        self.on_begun: Callable[[list[Finding]], None] = lambda findings: None
        self.order: Callable[[], Sequence[str]] = lambda: ()
        self._detectors = gradient_detectors(self.noise.factor, self._called, lambda: self.total.limit.unit)

    def see_gradients(
        self,
        step: int,
        names: tuple[str, ...],
        table: SummaryTable,
        *,
        expected_overflow: bool,
        begun: list[Finding] | None,
    ) -> None:
        """Takes the gradients of a step.

        Args:
            step: The training step.
            names: One for each row of the table.
            table: What was measured.
            expected_overflow: Whether infinities are normal here.
            begun: What a probe of the same step found; None if there was no probe.
        """
        named = self._detectors.see(self.history.record(step, names, table, expected_overflow=expected_overflow))
        if begun is None:
            begun = self.total.see_table(step, table, expected_overflow=expected_overflow)
        kinds = {finding.kind for finding in named}
        self.announce(named + [finding for finding in begun if finding.kind not in kinds])

    def _called(self) -> Sequence[str]:
        return self.order()

    def see_layer(self, step: int, layer: str, table: SummaryTable) -> None:
        """Takes the gradients of one layer, a table of one row."""
        self.announce(self._detectors.see(self.history.record(step, (layer,), table)))

    def see_updates(self, step: int, names: Sequence[str], ratios: Ratios) -> None:
        """Takes the update ratios of a step."""
        self.announce(self._detectors.see(self.history.record_updates(step, names, ratios)))

    def announce(self, begun: list[Finding]) -> None:
        """Announces new findings."""
        if begun:
            self.on_begun(begun)
            announce(begun, self._emitter)

    def all(self) -> list[Finding]:
        """Returns all findings so far, also of steps that the history holds no more."""
        named = self._detectors.findings()
        return named + self.total.findings(named)

    def analyze(self) -> GradientFlowAnalysis:
        """Returns what the held steps mean."""
        return analyze(self.history, findings=self.all(), order=self.order())
