"""Measures the gradients of a model step by step, keeps their history, and finds problems in them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.base import check_step

from debuggers.detectors import Finding
from debuggers.errors import HistoryError
from debuggers.gradients.findings import GradientFindings
from debuggers.gradients.flow import GradientFlowAnalysis
from debuggers.gradients.history import GradientHistory
from debuggers.gradients.measurement import GradientMeasurement
from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.gradients.parameters import Gradients, Parameters
from debuggers.gradients.recorded_layers import RecordedLayers
from debuggers.gradients.total_gradient import Probe
from debuggers.gradients.unclipped_norm import UnclippedNorm
from debuggers.gradients.updates import UpdateMeasurement
from debuggers.instrumentation.closing import Closing
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.isolation import Isolation, OnError, failure_alerts
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

_log = logging.getLogger(__name__)
_NO_GRADIENTS = "step %d: no parameter has a gradient; expected backward() before a step and zero_grad() after it"


@methods_between_graphs
class GradientDebugger(Closing):
    """Measures gradients, and if wanted weights, updates and optimizer state; finds problems in them.

    ::

        with GradientDebugger(model, optimizer, emitter=run, updates=True) as debugger:
            for number, batch in enumerate(loader):
                loss = criterion(model(batch.x), batch.y)
                loss.backward()
                debugger.step(number)
                optimizer.step()
                optimizer.zero_grad()
        print(debugger.analyze_gradient_flow().summary())

    What ``step`` measures is what the optimizer is about to use: accumulated over all micro-batches, clipped if the
    loop clips before the call and unclipped if it clips after it, and without the scale of a GradScaler, whether that
    has unscaled them or not. Nothing is changed. Emitted are histograms and norms of the group ``gradients`` (see
    ``SummaryStream``), those of ``UpdateMeasurement``, and an alert for each finding that begins. Without a model there
    are ``record_gradient_flow`` and ``analyze_gradient_flow``.

    Attributes:
        history: Statistics of the last steps.
        failures: How often something inside failed, by place and type of exception.
        recorded: What ``record_gradient_flow`` took.
        watch: Which parameters take part in the training; None without a model.
        unclipped: The norm of all gradients before the loop clips them; a loop tells of each step.
        steps_without_gradients: Calls of ``step`` that found no gradient at all.
        missing_gradients: Parameters that require a gradient and had none at the last step.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        emitter: Emitter | None = None,
        scaler: torch.amp.GradScaler | None = None,
        max_gradient_history: int = 200,
        histogram_every: int | None = 1,
        gradients: bool = True,
        weights: bool = False,
        updates: bool = False,
        optimizer_state: bool = False,
        on_error: OnError = "isolate",
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Sets it up; with ``weights``, ``updates`` or ``optimizer_state`` it hooks the optimizer until ``close``.

        Args:
            model: The model; may be compiled or wrapped.
            optimizer: Who updates it.
            emitter: Where artifacts go.
            scaler: The loop's GradScaler, if any; needed when ``step`` is called before it has unscaled.
            max_gradient_history: Steps that are remembered.
            histogram_every: Steps that one histogram covers; None for no histograms.
            gradients: Whether ``step`` measures gradients.
            weights: Whether weights are measured after each measured step.
            updates: Whether their changes are.
            optimizer_state: Whether the optimizer's moments are.
            on_error: ``raise`` lets failures inside pass, for tests.
            stopwatch: Adds up the time that this takes.

        Raises:
            DebuggerConfigError: When weights, updates or optimizer state are wanted of a model without an optimizer,
                or ``histogram_every`` is below 1.
            HistoryError: When ``max_gradient_history`` is below 1.
        """
        self.steps_without_gradients = self.missing_gradients = 0
        self._parameters = None if model is None else Parameters(model, optimizer)
        self._stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self._isolation = Isolation(on_error, failure_alerts(emitter, lambda: self._last_step))
        self.failures: Mapping[tuple[str, str], int] = self._isolation.counts
        self._arrivals = ArrivalQueue()
        self._findings = GradientFindings(emitter, self._arrivals, max_gradient_history, emits_total=gradients)
        self.history: GradientHistory = self._findings.history
        self._total = self._findings.total
        self.unclipped = UnclippedNorm(
            self._parameters, emitter if gradients else None, self._arrivals, self._isolation
        )
        self._measurement = GradientMeasurement(
            optimizer,
            scaler,
            self._findings,
            self._arrivals,
            emitter=emitter,
            histogram_every=histogram_every,
            measures_each=gradients,
        )
        self.watch: ParameterWatch | None = None
        if self._parameters is not None:
            self.watch = ParameterWatch(
                self._parameters, optimizer, self._arrivals, self._findings.announce, self._findings.history.forget
            )
        draws = histogram_every is not None
        self.recorded = RecordedLayers(emitter, self._arrivals, self._findings, with_histograms=draws)
        self._last_step, self._closed = 0, False
        self._updates: UpdateMeasurement | None = None
        if model is not None:
            self._updates = UpdateMeasurement.if_wanted(
                optimizer,
                emitter=emitter,
                histogram_every=histogram_every,
                weights=weights,
                updates=updates,
                optimizer_state=optimizer_state,
                on_ratios=self._findings.see_updates,
                isolation=self._isolation,
                stopwatch=self._stopwatch,
            )

    def use_order(self, order: Callable[[], Sequence[str]]) -> None:
        """Takes what returns the modules in the order of their calls: first and last are those of a pass then."""
        self._findings.order = order

    def listen(self, on_begun: Callable[[list[Finding]], None], on_total: Callable[[int, float], None]) -> None:
        """Has functions called: one with findings when they begin, one with each step and the norm of all gradients.

        The norm comes once it is on the host; NaN if it is not finite.
        """
        self._findings.on_begun, self._total.on_reading = on_begun, on_total

    @property
    def probed_steps(self) -> int:
        """Steps of which at least the norm of all gradients was seen on the host."""
        return self._total.steps

    @property
    def measured_steps(self) -> int:
        """Steps of which every gradient was measured and seen on the host."""
        return self._measurement.steps

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The other names of tied parameters."""
        return {} if self._parameters is None else self._parameters.aliases

    @property
    def skipped_updates(self) -> int:
        """Measured steps after which the optimizer changed nothing, as when a GradScaler skips them."""
        return 0 if self._updates is None else self._updates.skipped

    def expect(self, *, measures: bool) -> None:
        """Says whether the coming step is to be measured, as far as is known; of several optimizers it must be."""
        if self._updates is not None:
            self._updates.is_expected = measures

    def step(self, step: int, table: SummaryTable | None = None) -> SummaryTable | None:
        """Measures the gradients; call it after the last ``backward`` of a step and before the optimizer's step.

        Args:
            step: The training step.
            table: The summaries of these gradients, unscaled, if they were measured already: one row for each
                parameter that has a gradient, in the model's order.

        Returns:
            The gradients' summaries in that order; None without gradients, and while they are on a device.

        Raises:
            ArtifactError: For a wrong step.
            HistoryError: When a table has another number of rows.
        """
        step = check_step("gradients", "step", step)
        if self._parameters is None or self._closed:
            return None
        with self._stopwatch:
            self._last_step = step
            probed = self._total.probed_gradients(step) if table is None else None
            found = probed or self._parameters.gradients(with_released=table is not None)
            if table is not None and len(table) != len(found.names):
                raise HistoryError(f"{len(table)} summaries for {len(found.names)} gradients; expected one for each")
            with self._isolation.guard("measuring gradients"):
                return self._measure(step, found, table)
        return None

    def probe(self, step: int) -> Probe | None:
        """Checks in one cheap pass whether the gradients of a step are finite, and their total norm; None without any.

        Call it instead of ``step`` where only some are measured, and then ``step`` if it asks for it, or ``leave_out``.

        Raises:
            ArtifactError: For a wrong step.
        """
        step = check_step("gradients", "step", step)
        if self._parameters is None or self._closed:
            return None
        with self._stopwatch, self._isolation.guard("probing gradients"):
            self._last_step = step
            found = self._parameters.gradients()
            if not found.tensors:
                return None
            if self.watch is not None:
                self.watch.see(step, found)
            return self._measurement.probe_total(step, found) if self._measurement.can_measure(found) else None
        return None

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self._measurement.scaler = scaler

    def note_batch(self, step: int, rows: int, usual_loss: float) -> None:
        """Says of what a step's gradients are, before they are probed or measured.

        Args:
            step: The training step.
            rows: How many the batch has; 0 where that is not known.
            usual_loss: What the loss of a constant output is; gradients grow with the unit of the loss.
        """
        self._findings.noise.note(step, rows)
        self._total.limit.unit = max(1.0, usual_loss)

    def leave_out(self) -> None:
        """Notes that this step is not measured; call it instead of ``step`` where only some steps are.

        Else, when a measured step was skipped, the next optimizer step would be taken for it. Of a step that was
        probed the norm of all gradients is emitted.
        """
        if self._updates is not None:
            self._updates.disarm()
        with self._stopwatch, self._isolation.guard("probing gradients"):
            self._total.leave_out()

    def record_gradient_flow(self, layer: str, gradients: Any, *, step: int | None = None) -> None:
        """Records the gradients of a layer that the caller has: a tensor, an array, or numbers in a list.

        They become part of the history and are emitted as ``gradients/<layer>`` and ``gradient_norm/<layer>``.

        Args:
            layer: What they belong to.
            gradients: Of any shape.
            step: The training step; by default one more than the last one of this layer.

        Raises:
            ArtifactError: For a wrong name or step, and for what holds no plain numbers, or none at all.
        """
        self.recorded.record(layer, gradients, step)

    def analyze_gradient_flow(self) -> GradientFlowAnalysis:
        """Returns what the remembered gradients mean; waits for the device."""
        with self._stopwatch:
            self._wait()
            return self._findings.analyze()

    def findings(self) -> list[Finding]:
        """Returns all findings so far, also of steps that the history holds no more; waits for the device."""
        with self._stopwatch:
            if self.watch is not None and not self._closed:
                with self._isolation.guard("looking at the weights"):
                    self.watch.compare_weights()
            self._wait()
            return self._findings.all() + ([] if self.watch is None else self.watch.findings())

    def close(self) -> None:
        """Emits what is left and removes the hook; waits for the device. Calling it again does nothing."""
        with self._stopwatch:
            was_open, self._closed = not self._closed, True
            with self._isolation.guard("closing the gradient debugger"):
                if self._updates is not None:
                    self._updates.close()
            self._wait()
            if self.watch is not None and was_open:
                with self._isolation.guard("looking at the weights"):
                    non_finite = any(finding.kind.startswith("non_finite") for finding in self._findings.all())
                    self.watch.close(look_at_values=not non_finite)
                    self._wait()
            with self._isolation.guard("closing the gradient debugger"):
                self._measurement.close()

    def _wait(self) -> None:
        with self._isolation.guard("waiting for the device"):
            self._arrivals.drain()
        if self._updates is not None:
            with self._isolation.guard("waiting for the device"):
                self._updates.wait()

    def _measure(self, step: int, found: Gradients, table: SummaryTable | None) -> SummaryTable | None:
        self.missing_gradients = found.missing
        if not found.tensors:
            if self.steps_without_gradients == 0:
                _log.warning(_NO_GRADIENTS, step)
            self.steps_without_gradients += 1
            return None
        if self.watch is not None and self._total.probed_gradients(step) is None:
            self.watch.see(step, found)
        if not self._measurement.can_measure(found):
            return None
        table = self._measurement.measure(step, found, table)
        if self._updates is not None:
            self._updates.arm(step, found)
        return table
