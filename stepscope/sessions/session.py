"""A debug session: puts the debuggers on a model, decides which steps are measured, and reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.base import check_step

from debuggers.detectors.signals.front import Rule
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.isolation import Isolation, OnError, failure_alerts
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.arguments import (
    check_run,
    check_session,
    checked_detectors,
    only_config,
    with_hooks,
)
from stepscope.sessions.config import ConfigSpec, DebugConfig, as_config
from stepscope.sessions.diagnosis import SessionDiagnosis
from stepscope.sessions.diagnostics import Diagnostics, check_loss
from stepscope.sessions.first_nan import SessionFirstNaN
from stepscope.sessions.instruments import Instruments
from stepscope.sessions.on_finding import OnFinding, hooks_on_findings, warn_of_unknown_kinds
from stepscope.sessions.probing import SessionProbing
from stepscope.sessions.stability import SessionStability
from stepscope.sessions.step_pacing import StepPacing
from stepscope.sessions.telling.told_values import check_metrics, checked_batch

if TYPE_CHECKING:
    from stability import NumericalStabilityManager
    from stability.results.step import StabilityResult

DISABLED_VARIABLE = "STEPSCOPE_DISABLED"


@methods_between_graphs
class DebugSession(SessionProbing):
    """Watches the training of a model: gradients, weights, updates, activations, and single tensors.

    Call ``start`` (or use it as a context manager), ``step`` once before each optimizer step, and ``stop``::

        with stepscope.DebugSession(model, optimizer, run=run) as session:
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()
                session.step(loss)
                optimizer.step()
        print(session.report().summary())

    Training with a session is bit-identical to training without it. Internal failures are logged once per
    cause and shown in the report, and never stop the training. With the environment variable ``STEPSCOPE_DISABLED=1``
    nothing is measured and no hook is set; a stability manager still works.
    """

    def __init__(
        self,
        model: torch.nn.Module | DebugConfig | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        run: Emitter | None = None,
        stability: NumericalStabilityManager | None = None,
        scaler: torch.amp.GradScaler | None = None,
        config: ConfigSpec | None = None,
        detectors: Sequence[Rule] = (),
        on_finding: OnFinding | None = None,
        on_error: OnError = "isolate",
    ) -> None:
        """Creates a session, which ``start`` starts.

        Args:
            model: The watched model; without one there are the inspector and ``record_gradient_flow``. A DebugConfig
                instead of a model configures a session without one.
            optimizer: The optimizer; needed for weights, updates, optimizer state and learning rates.
            run: The emitter of artifacts: a run, or a scoped emitter; without one there is only the report.
            stability: Detects and clips at each ``step``; it shares the measurement of the gradients.
            scaler: The loop's GradScaler, if any; the stability manager's by default.
            config: What is measured, how often, at what cost: see ``watch``.
            detectors: Rules beside those that are always on, each new for this session: a ``SignalDetector`` of signals
                or of the loop's metrics, or a ``Detector`` of one signal of tensors. They need ``diagnosis``.
            on_finding: What to do when findings begin, by their kind, or by their lowest level, once for each kind and
                step: ``{"error": "stop", "exploding_gradient": ["save_tensor", "measure:50"]}``. ``log``, ``notify``,
                ``stop``, ``raise``, ``measure``, ``save_tensor`` and ``snapshot`` are actions of ``HookAction``; an
                exception type is raised; a function gets the ``HookEvent``.
            on_error: ``raise`` propagates internal failures, for tests.

        Raises:
            SessionError: When ``model``, ``optimizer``, ``stability`` or a detector is something else, one that is
                needed is missing, ``run`` is a path, or ``scaler`` is another one than the manager's.
            ConfigError: For a wrong configuration.
        """
        if isinstance(model, DebugConfig):
            config, model = only_config(model, config), None
        self.config = as_config(config)
        check_run(run)
        optimizer = with_hooks(optimizer)
        check_session(model, optimizer, self.config, stability, scaler)
        self.disabled = os.environ.get(DISABLED_VARIABLE, "") not in ("", "0")
        self._model, self._optimizer, self._run = model, optimizer, run
        self._stability = SessionStability(stability, model, optimizer)
        self._pacing = StepPacing(self.config, run)
        alert = failure_alerts(run, lambda: max(0, self._pacing.last), name="session_failure", level="warning")
        self._isolation = Isolation(on_error, alert)
        self._diagnostics = Diagnostics(run if self.config.enable_model_diagnostics else None, optimizer)
        if scaler is None and stability is not None:
            scaler = stability.scaler
        self._first_nan = SessionFirstNaN(None if self.disabled else model, run, scaler, self._stability)
        watched = None if self.disabled else model
        self._instruments = Instruments(
            watched,
            optimizer,
            run,
            scaler,
            self.config,
            stopwatch=self._pacing.stopwatch,
            on_error=on_error,
            tells_loss=stability is None,
            disabled=self.disabled,
        )
        self._diagnosis = SessionDiagnosis(
            watched,
            optimizer,
            run,
            scaler,
            wanted=self.config.diagnosis,
            detectors=checked_detectors(detectors, model, self.config),
            tells_layers=bool(self.config.activations),
            isolation=self._isolation,
            stopwatch=self._pacing.stopwatch,
        )
        self._instruments.tools.evidence = lambda: self._diagnosis.evidence([])
        self._instruments.gradients.use_order(lambda: self._diagnosis.called_layers)
        self._diagnosis.use_watch(
            self._instruments.gradients.watch, lambda facts: self._coverage(facts, waits=False).gaps
        )
        self._instruments.tools.on_hook = lambda hook: warn_of_unknown_kinds(hook, self._diagnosis.kinds)
        for hook in hooks_on_findings(on_finding, known=self._diagnosis.kinds, run=run):
            self._instruments.tools.hooks.register_hook(hook)
        self._instruments.gradients.listen(self._instruments.tools.begun, on_total=self._diagnosis.note_total)
        self._diagnosis.listen(self._instruments.tools.begun)
        self._started = self._stopped = self._paused = False
        self._pausing_thread = self._missed_steps = 0
        self._waits = False
        self._loss: torch.Tensor | float | None = None
        self._process = 0
        self._forget_run: Callable[[], None] = lambda: None

    def step(
        self,
        loss: torch.Tensor | float | None = None,
        *,
        step: int | None = None,
        replay: Callable[[], Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        inputs: Any = None,
        outputs: Any = None,
        targets: Any = None,
    ) -> StabilityResult | None:
        """Measures a step, if it is due; call it after the last ``backward`` and before ``optimizer.step()``.

        Gradients are measured as they are: clipped if the loop has clipped them before. A stability manager's
        clipping comes after the measurement. Under a GradScaler they may be scaled still, if the session was given
        the scaler: what is recorded is unscaled.

        Args:
            loss: The unscaled loss; emitted as ``loss``. By default what ``backward`` was called on, without the scale
                of a GradScaler, the mean over all passes of the step. A stability manager needs it.
            step: The number of this step; by default one more than the last one.
            replay: Returns the loss of the same batch, such as ``lambda: criterion(model(inputs), targets)``; it may
                call ``backward``. It is called when the loss or a gradient is not finite and those before were, to name
                the operator that made the first NaN or infinity; after an answer, at most once in 100 steps. Every step
                that has it is checked, measured or not, which waits once for a device. A stability manager skips or
                repairs the step afterwards.
            metrics: Further numbers to emit, by their names.
            inputs: What the model was given in this step: a tensor, or tuples, lists, mappings and data classes that
                hold tensors. By default what its first forward pass was given. Of inputs, outputs and targets a
                diagnosis takes statistics at sampled steps; none is kept.
            outputs: What the model returned, likewise.
            targets: What the loss compares with the outputs, such as class indices; likewise.

        Returns:
            The stability manager's result; None without a manager.

        Raises:
            SessionError: When the session is not running, a stability manager gets no loss, inputs, outputs or targets
                hold no tensor or cannot be looked through, or metrics are no mapping.
            ArtifactError: For a wrong step, loss or metric.
            StabilityError: From the stability manager; the step counts as not taken, and nothing of it is emitted.
            AutogradAnomalyError: From the stability manager, after the step was taken.
            FindingError: When ``on_finding`` says so, after the step was taken; or another type that it names.
        """
        number = self._pacing.next if step is None else check_step("session", "step", step)
        self._check_running()
        self._stability.check(loss)
        check_loss(loss)
        check_metrics(metrics)
        batch = checked_batch(inputs=inputs, outputs=outputs, targets=targets)
        if self.disabled:
            self._pacing.count(number)
            return self._stability.decide(number, loss, None, replay, None)
        measured = self._pacing.is_measured(number)
        with self._pacing.stopwatch:
            loss = self._diagnosis.loss(loss)
            self._instruments.gradients.note_batch(number, self._diagnosis.rows, self._diagnosis.usual_loss(loss))
            self._instruments.gradients.unclipped.emit(number, self._diagnosis.take_unclipped())
            self._diagnostics.emit(number, None if self._waits else loss, metrics, measured=measured)
            self._diagnosis.note_metrics(number, metrics)
            self._stability.unscale()
            measured = self._instruments.look(number, loss, self._isolation, measured=measured)
            if measured:
                with self._isolation.guard("measuring a step"):
                    self._instruments.measure(number)
            else:
                self._instruments.leave_out(number)
            self._diagnosis.step(number, loss, batch, self._instruments.summaries, waits=self._waits)
            self._loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
            if self._instruments.tools.listens:
                self._diagnosis.judge_noted()
            with self._isolation.guard("acting on a step"):
                self._instruments.tools.act(number)
        summaries = self._instruments.summaries
        try:
            result = self._stability.decide(number, loss, summaries, replay, self._first_nan.own)
        finally:  # what the manager raises now, it raises of a step that was taken
            finite = self._instruments.gradients_finite
            with self._isolation.guard("repeating a step"):
                self._first_nan.look(number, loss, gradients_finite=finite, replay=replay)
            self._pacing.close(number, measured=measured)
            with self._pacing.stopwatch, self._isolation.guard("preparing a step"):
                self._diagnosis.note(number, "step_ms", self._pacing.plain_s * 1e3)
                if measured:
                    self._diagnostics.step_time(number, self._pacing.plain_s)
                self._pacing.measure_densely(self._instruments.tools.control.take_dense_steps())
                self._expect(self._pacing.next)
        self._instruments.tools.control.raise_asked()
        return result

    def _check_running(self) -> None:
        """Raises SessionError where no step can be taken now."""
        if not self._started or self._stopped:
            raise SessionError("the session is not running; call start() first, or use it as a context manager")
        if self._paused:
            raise SessionError("the session is paused; expected step() after the with block of paused()")
