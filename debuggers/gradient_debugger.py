"""Measures the gradients of a model step by step, remembers them, and says what is wrong with them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from tracker_adapters.base import check_name, check_step
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError

from debuggers.detectors import announce, gradient_detectors
from debuggers.detectors.observation import Observation
from debuggers.gradient_flow import GradientFlowAnalysis, analyze
from debuggers.gradient_history import GradientHistory
from debuggers.isolation import Isolation, OnError
from debuggers.loss_scale import measure_unscaled, scale_in_gradients
from debuggers.measurement import measure
from debuggers.parameters import Parameters
from debuggers.stopwatch import Stopwatch
from debuggers.summary_stream import SummaryStream
from debuggers.summary_table import SummaryTable
from debuggers.torch_import import torch
from debuggers.update_measurement import Ratios, UpdateMeasurement

_log = logging.getLogger(__name__)


class GradientDebugger:
    """Measures gradients, and if wanted weights, updates and optimizer state; finds what is wrong with them.

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
    loop has clipped before it, and without the scale of a GradScaler, whether that has unscaled them or not. Nothing is
    changed. Emitted are histograms and norms of the group ``gradients`` (see ``SummaryStream``), those of
    ``UpdateMeasurement``, and an alert for each finding that begins.

    Without a model there are ``record_gradient_flow`` and ``analyze_gradient_flow``.

    Attributes:
        history: Statistics of the last steps.
        steps_without_gradients: Calls of ``step`` that found no gradient at all.
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
            scaler: The loop's GradScaler, if ``step`` is called before it has unscaled.
            max_gradient_history: Steps that are remembered.
            histogram_every: Steps that one histogram covers; None for no histograms.
            gradients: Whether ``step`` measures gradients.
            weights: Whether weights are measured after each measured step.
            updates: Whether their changes are.
            optimizer_state: Whether the optimizer's moments are.
            on_error: ``raise`` lets failures inside hooks pass, for tests.
            stopwatch: Adds up the time that this takes.
        """
        self.history = GradientHistory(max_gradient_history)
        self.steps_without_gradients = 0
        self._parameters = None if model is None else Parameters(model)
        self._optimizer, self._scaler, self._emitter = optimizer, scaler, emitter
        self._with_gradients = gradients
        self._stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self._isolation = Isolation(on_error, self._alert)
        self._detectors = gradient_detectors()
        self._expected_overflows: deque[bool] = deque()
        self._layer_steps: dict[str, int] = {}
        self._last_step = 0
        self._stream = SummaryStream("gradients", emitter, histogram_every=histogram_every, on_table=self._take)
        self._updates: UpdateMeasurement | None = None
        if self._parameters is not None and optimizer is not None and (weights or updates or optimizer_state):
            self._updates = UpdateMeasurement(
                self._parameters,
                optimizer,
                emitter=emitter,
                histogram_every=histogram_every,
                weights=weights,
                updates=updates,
                optimizer_state=optimizer_state,
                on_ratios=self._take_ratios,
                isolation=self._isolation,
                stopwatch=self._stopwatch,
            )

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The other names of tied parameters."""
        return {} if self._parameters is None else self._parameters.aliases

    @property
    def skipped_updates(self) -> int:
        """Measured steps after which the optimizer did not step, as when a GradScaler skips them."""
        return 0 if self._updates is None else self._updates.skipped_updates

    def step(self, step: int) -> SummaryTable | None:
        """Measures the gradients; call it after the last ``backward`` of a step and before the optimizer's step.

        Args:
            step: The training step.

        Returns:
            The gradients' summaries, in the order of the parameters that have one; None without gradients, and while
            they are on a device.
        """
        if self._parameters is None:
            return None
        with self._stopwatch:
            self._last_step = step
            summaries = self._measure_gradients(step) if self._with_gradients else None
            if self._updates is not None:
                self._updates.arm(step)
            return summaries

    def record_gradient_flow(self, layer: str, gradients: Any, *, step: int | None = None) -> None:
        """Records the gradients of a layer that the caller has: a tensor, an array, or numbers in a list.

        Args:
            layer: What they belong to.
            gradients: Of any shape.
            step: The training step; by default one more than the last one of this layer.

        Raises:
            ArtifactError: For a wrong name or step, and for what holds no plain numbers.
        """
        layer = check_name("gradients", layer)
        number = self._layer_steps.get(layer, -1) + 1 if step is None else check_step("gradients", layer, step)
        table = measure({layer: _as_tensor(layer, gradients)}).resolve()
        self._layer_steps[layer] = number
        self._see(self.history.record(number, (layer,), table))

    def analyze_gradient_flow(self) -> GradientFlowAnalysis:
        """Returns what the remembered gradients mean; waits for the device."""
        with self._stopwatch:
            self._stream.poll()
            return analyze(self.history, findings=self._detectors.findings())

    def close(self) -> None:
        """Emits what is left and removes the hook; waits for the device. Calling it again does nothing."""
        with self._stopwatch:
            self._stream.drain()
            if self._updates is not None:
                self._updates.close()

    def _measure_gradients(self, step: int) -> SummaryTable | None:
        assert self._parameters is not None
        found = self._parameters.gradients()
        if not found.tensors:
            if self.steps_without_gradients == 0:
                _log.warning("step %d: no parameter has a gradient; expected a call after backward", step)
            self.steps_without_gradients += 1
            return None
        scale = scale_in_gradients(self._scaler, self._optimizer)
        measurement = measure_unscaled(found.tensors, scale)
        self._expected_overflows.append(scale is not None or (self._scaler is not None and self._scaler.is_enabled()))
        on_host = measurement.ready()
        self._stream.push(step, found.names, measurement)
        return measurement.resolve() if on_host else None

    def _take(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        expected = self._expected_overflows.popleft()
        self._see(self.history.record(step, names, table, expected_overflow=expected))

    def _take_ratios(self, step: int, names: Sequence[str], ratios: Ratios) -> None:
        self._see(self.history.record_updates(step, names, ratios))

    def _see(self, observation: Observation) -> None:
        begun = self._detectors.see(observation)
        if begun and self._emitter is not None:
            announce(begun, self._emitter)

    def _alert(self, message: str) -> None:
        if self._emitter is not None:
            self._emitter.alert("debugger_failed", message, step=self._last_step, level="error")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_tensor(layer: str, values: Any) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values
    try:
        array = np.asarray(values)
        return torch.from_numpy(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError) as error:
        shown = repr(values)[:100]
        raise ArtifactError(f"gradients of {layer!r}: {shown} holds no plain numbers ({error})") from error
