"""What a session offers beside its debuggers, made when first asked for: hooks, a profiler, model diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracker_adapters.emitter import Emitter

from debuggers.conditional_hooks.control import TrainingControl
from debuggers.detectors import Finding
from debuggers.detectors.finding import collected_findings
from debuggers.diagnosis.evidence import Evidence
from debuggers.gradients.debugger import GradientDebugger
from debuggers.instrumentation.isolation import Isolation, OnError, failure_alerts
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.tensors.inspector import TensorInspector
from debuggers.torch_import import torch
from stepscope.sessions.config import DebugConfig

if TYPE_CHECKING:
    from debuggers.conditional_hooks.hook import ConditionalHook
    from debuggers.conditional_hooks.hooks import ConditionalHooks
    from debuggers.model_diagnostics.diagnostics import ModelDiagnostics
    from debuggers.profiling.measured_steps import MeasuredSteps
    from debuggers.profiling.profiler import PerformanceProfiler


class SessionTools:
    """Tells of the steps to what was asked for; what was not costs nothing.

    Attributes:
        evidence: Returns what the session's diagnosis argues from.
        on_hook: Called with each hook that is registered.
        control: What actions of hooks ask of the loop.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        *,
        inspector: TensorInspector,
        gradients: GradientDebugger,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        config: DebugConfig,
        stopwatch: Stopwatch,
        on_error: OnError,
        enabled: bool,
    ) -> None:
        self._model, self._inspector, self._gradients, self._emitter = model, inspector, gradients, emitter
        self._scaler, self._config, self._stopwatch, self._enabled = scaler, config, stopwatch, enabled
        self._isolation = Isolation(on_error, failure_alerts(emitter, lambda: self._step or 0))
        self._hooks: ConditionalHooks | None = None
        self._model_diagnostics: ModelDiagnostics | None = None
        self._profiler: PerformanceProfiler | None = None
        self.evidence: Callable[[], Evidence] = Evidence
        self.on_hook: Callable[[ConditionalHook], None] = lambda hook: None
        self._step: int | None = None
        self._last_step = 0
        self._loss: torch.Tensor | float | None = None
        self._collecting = ExitStack()
        self._findings: list[Finding] = []
        self._begun: list[Finding] = []
        self.control = TrainingControl()

    @property
    def hooks(self) -> ConditionalHooks:
        """The session's conditional hooks."""
        if self._hooks is None:
            from debuggers.conditional_hooks.hooks import ConditionalHooks

            self._hooks = ConditionalHooks(
                self._model,
                inspector=self._inspector,
                gradients=self._gradients,
                isolation=self._isolation,
                emitter=self._emitter,
                scaler=self._scaler,
                output_dir=self._config.output_dir,
                stopwatch=self._stopwatch,
                enabled=self._enabled,
                control=self.control,
            )
            self._hooks.on_registered = self.on_hook
            if self._step is not None:
                self._hooks.begin(self._step)
        return self._hooks

    @property
    def model_diagnostics(self) -> ModelDiagnostics:
        """The model's architecture, and the metrics that the loop records."""
        if self._model_diagnostics is None:
            from debuggers.model_diagnostics.diagnostics import ModelDiagnostics

            self._model_diagnostics = ModelDiagnostics(self._model, enabled=self._enabled)
        return self._model_diagnostics

    @property
    def profiler(self) -> PerformanceProfiler:
        """The session's timers and layers."""
        if self._profiler is None:
            from debuggers.diagnosis.data_waiting import data_waiting
            from debuggers.profiling.measured_steps import SessionSide
            from debuggers.profiling.profiler import PerformanceProfiler

            side = SessionSide(
                emitter=self._emitter,
                output_dir=self._config.output_dir,
                isolation=self._isolation,
                stopwatch=self._stopwatch,
                enabled=self._enabled,
                waiting=lambda: data_waiting(self.evidence()),
            )
            self._profiler = PerformanceProfiler(self._model, session=side)
        return self._profiler

    @property
    def used_profiler(self) -> PerformanceProfiler | None:
        """The profiler, if it was asked for."""
        return self._profiler

    @property
    def failures(self) -> Mapping[tuple[str, str], int]:
        """How often something inside failed, by place and type of exception."""
        return self._isolation.counts

    def begin(self, step: int) -> None:
        """Says that a step begins."""
        self._step = step
        if self._hooks is not None:
            self._hooks.begin(step)
        if self._measured_steps is not None:
            self._measured_steps.begin()

    @property
    def listens(self) -> bool:
        """Whether hooks act on findings."""
        return self._hooks is not None and self._hooks.listens

    def look(self, loss: torch.Tensor | float | None) -> None:
        """Says that the gradients of the step are complete, and will be looked at."""
        self._loss = loss
        if self.listens:
            self._collecting.close()
            self._findings = self._collecting.enter_context(collected_findings())

    def end_step(self, step: int) -> None:
        """Says that they were looked at."""
        self._last_step = step
        if self._measured_steps is not None:
            self._measured_steps.end_step(step)

    def begun(self, findings: list[Finding]) -> None:
        """Takes findings that begin at any time, also between steps; hooks act on them at the end of the next one."""
        if self.listens:
            self._begun += findings

    def act(self, step: int) -> None:
        """Lets hooks act on a step, of which all is known now."""
        self._collecting.close()
        loss, self._loss = self._loss, None
        findings, self._findings, self._begun = [*self._begun, *self._findings], [], []
        if self._hooks is not None:
            self._hooks.end_step(step, loss, [one for place, one in enumerate(findings) if one not in findings[:place]])

    def act_at_end(self) -> None:
        """Lets hooks act on what has begun since the last step."""
        if self._begun:
            self.act(self._last_step)

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self._scaler = scaler
        if self._hooks is not None:
            self._hooks.scaler = scaler

    def pause(self) -> None:
        """Observes nothing until the next step begins."""
        self._step = None
        if self._hooks is not None:
            self._hooks.pause()
        if self._measured_steps is not None:
            self._measured_steps.pause()

    def close(self) -> None:
        """Removes every hook, and ends what is left."""
        self._step = None
        if self._hooks is not None:
            self._hooks.close()
        if self._measured_steps is not None:
            self._measured_steps.close(self._last_step)

    @property
    def _measured_steps(self) -> MeasuredSteps | None:
        return None if self._profiler is None else self._profiler.steps
