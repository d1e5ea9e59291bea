"""A debug session: puts the debuggers on a model, decides which steps are measured, and reports."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tracker_adapters.base import check_step
from tracker_adapters.emitter import Emitter

from debuggers.first_non_finite import find_first_non_finite
from debuggers.isolation import Isolation, OnError
from debuggers.measurement import prepare
from debuggers.stopwatch import Stopwatch
from debuggers.summary_table import SummaryTable
from debuggers.torch_import import torch
from stepscope.debug_config import DebugConfig, Preset, as_config
from stepscope.diagnostics import Diagnostics
from stepscope.errors import SessionError
from stepscope.governor import Governor
from stepscope.instruments import Instruments
from stepscope.live_run import Run
from stepscope.report import DebugReport
from stepscope.report_output import put_out

if TYPE_CHECKING:
    from debuggers.activation_monitor import ActivationMonitor
    from debuggers.gradient_debugger import GradientDebugger
    from debuggers.tensor_inspector import TensorInspector
    from stability import NumericalStabilityManager
    from stability.results import StabilityResult

logger = logging.getLogger(__name__)
DISABLED_VARIABLE = "STEPSCOPE_DISABLED"
_SLOW_START_S = 2.0


class DebugSession:
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

    Training with a session is bit-identical to training without it. What fails inside is logged once for each
    cause, shown in the report, and stops nothing. With the environment variable ``STEPSCOPE_DISABLED`` set to 1
    nothing is measured and no hook is set; a stability manager still does its work.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        run: Emitter | None = None,
        stability: NumericalStabilityManager | None = None,
        scaler: torch.amp.GradScaler | None = None,
        config: DebugConfig | Preset | None = None,
        on_error: OnError = "isolate",
    ) -> None:
        """Makes a session; nothing happens before ``start``.

        Args:
            model: What is watched; without one there are the inspector and ``record_gradient_flow``.
            optimizer: Who updates it; needed for weights, updates, optimizer state and learning rates.
            run: Where artifacts go: a run, or an emitter that was scoped; without one there is only the report.
            stability: Detects and clips at each ``step``; it shares the measurement of the gradients.
            scaler: The loop's GradScaler, if any; the stability manager's by default.
            config: What is measured, how often, at what cost: a DebugConfig, or the name of a preset.
            on_error: ``raise`` lets failures inside pass, for tests.

        Raises:
            SessionError: When ``model`` or ``optimizer`` is something else, or one that is needed is missing.
            ConfigError: For a wrong configuration.
        """
        self.config = as_config(config)
        _check(model, optimizer, self.config, stability)
        self.disabled = os.environ.get(DISABLED_VARIABLE, "") not in ("", "0")
        self._model, self._optimizer, self._stability, self._run = model, optimizer, stability, run
        self._stopwatch = Stopwatch()
        self._isolation = Isolation(on_error, self._alert_failure)
        self._governor = Governor(self.config.max_overhead)
        self._diagnostics = Diagnostics(run if self.config.enable_model_diagnostics else None, optimizer)
        if scaler is None and stability is not None:
            scaler = stability.scaler
        self._instruments = Instruments(
            None if self.disabled else model,
            optimizer,
            run,
            scaler,
            self.config,
            stopwatch=self._stopwatch,
            on_error=on_error,
        )
        self._started = self._stopped = False
        self._last_step, self._stride = -1, 1
        self._granted = True
        self._paused = False
        self._boundary_s = self._spent_before_s = self._background_before_s = 0.0

    @property
    def tensor_inspector(self) -> TensorInspector:
        """Takes single tensors: ``session.tensor_inspector.inspect_tensor(tensor, "name")``."""
        return self._instruments.tensors

    @property
    def gradient_debugger(self) -> GradientDebugger:
        """History and analysis of the gradients; takes others by ``record_gradient_flow``."""
        return self._instruments.gradients

    @property
    def activation_monitor(self) -> ActivationMonitor | None:
        """What the layers put out; None unless configured."""
        return self._instruments.activations

    def start(self) -> Self:
        """Begins to watch.

        The first time on a machine it compiles the measuring kernel, which takes about ten seconds.

        Raises:
            SessionError: When the session was started before.
        """
        if self._started:
            raise SessionError("this session was started before; expected a new DebugSession for each training")
        self._started = True
        if isinstance(self._run, Run):
            self._run.call_before_close(self.stop)
        if not self.disabled:
            with self._isolation.guard("the measuring kernel"):
                seconds = prepare()
                if seconds > _SLOW_START_S:
                    logger.info("stepscope compiled its measuring kernel in %.1f s; it is cached", seconds)
            self._expect(0)
        self._boundary_s = time.perf_counter()
        return self

    def step(
        self,
        loss: torch.Tensor | float | None = None,
        *,
        step: int | None = None,
        replay: Callable[[], Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> StabilityResult | None:
        """Measures a step, if it is due; call it after the last ``backward`` and before ``optimizer.step()``.

        Gradients are measured as they are: clipped if the loop has clipped them before. A stability manager's
        clipping comes after the measurement. Under a GradScaler they may be scaled still, if the session was given
        the scaler: what is recorded is unscaled.

        Args:
            loss: The unscaled loss; emitted as ``loss``. A stability manager needs it.
            step: The number of this step; by default one more than the last one.
            replay: Repeats the forward pass, such as ``lambda: model(inputs)``. It is called when a gradient of a
                measured step is not finite, to name the module that put out the first NaN or infinity.
            metrics: Further numbers to emit, by their names.

        Returns:
            The stability manager's result; None without a manager.

        Raises:
            SessionError: When the session is not running, or a stability manager gets no loss.
            ArtifactError: For a wrong step, loss or metric.
            StabilityError: From the stability manager.
        """
        number = self._last_step + self._stride if step is None else check_step("session", "step", step)
        if not self._started or self._stopped:
            raise SessionError("the session is not running; call start() first, or use it as a context manager")
        if self._paused:
            raise SessionError("the session is paused; expected step() after the with block of paused()")
        if self._stability is not None and loss is None:
            raise SessionError("the session has a stability manager and got no loss; expected session.step(loss)")
        if self.disabled:
            return self._decide_stability(number, loss, None)
        due = self.config.schedule.is_due(number)
        measured = due and self._granted
        with self._stopwatch:
            self._diagnostics.emit(number, loss, metrics, measured=measured)
            if measured:
                self._measure(number)
            else:
                self._instruments.leave_out()
        summaries = self._instruments.summaries if measured else None
        result = self._decide_stability(number, loss, summaries)
        if replay is not None and summaries is not None and summaries.non_finite.any():
            with self._isolation.guard("repeating a forward pass"):
                self._name_first_non_finite(number, replay)
        self._close_step(number, due=due, measured=measured)
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out what happens inside, between two steps: a validation, a checkpoint, the step of another model.

        No layer has a hook meanwhile, and the time counts neither as training nor as overhead.
        """
        begun = time.perf_counter()
        self._paused = True
        self._instruments.pause()
        try:
            yield
        finally:
            self._paused = False
            if self._started and not self._stopped and not self.disabled:
                with self._isolation.guard("preparing a step"):
                    self._expect(self._last_step + self._stride)
            self._boundary_s += time.perf_counter() - begun

    def report(self) -> DebugReport:
        """Returns what the session knows so far."""
        return DebugReport.of(
            self._instruments,
            overhead=self._governor.overhead(),
            failures={**self._isolation.counts, **self._instruments.failures},
            disabled=self.disabled,
        )

    def stop(self) -> DebugReport:
        """Ends the session: removes every hook, emits what is left, writes and prints what ``report`` returns.

        The measured overhead is printed to standard error. A second call only returns the report.
        """
        if self._stopped:
            return self.report()
        self._stopped = True
        with self._isolation.guard("ending the session"):
            self._instruments.close()
        report = self.report()
        if self._started:
            with self._isolation.guard("writing the report"):
                put_out(report, self.config.output_dir, self._run, self._last_step)
        return report

    def __enter__(self) -> Self:
        return self if self._started else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _measure(self, number: int) -> None:
        if self._stability is not None and self._optimizer is not None:
            # Before the measurement that both share; the manager would do the same a moment later.
            self._stability.unscale(self._optimizer)
        with self._isolation.guard("measuring a step"):
            self._instruments.measure(number)

    def _decide_stability(
        self, number: int, loss: torch.Tensor | float | None, summaries: SummaryTable | None
    ) -> StabilityResult | None:
        """Lets the manager look and clip: what it costs is its user's wish, and not counted as overhead."""
        if self._stability is None or self._model is None or self._optimizer is None or loss is None:
            return None
        return self._stability.step(self._model, loss, self._optimizer, step=number, summaries=summaries)

    def _close_step(self, number: int, *, due: bool, measured: bool) -> None:
        now = time.perf_counter()
        step_s, self._boundary_s = now - self._boundary_s, now
        background_s = self._run.background_seconds if isinstance(self._run, Run) else 0.0
        spent_s = self._stopwatch.seconds - self._spent_before_s + background_s - self._background_before_s
        self._spent_before_s, self._background_before_s = self._stopwatch.seconds, background_s
        self._governor.account(step_s, spent_s, due=due, measured=measured)
        with self._stopwatch, self._isolation.guard("preparing a step"):
            if measured:
                self._diagnostics.step_time(number, step_s)
            self._stride = max(1, number - self._last_step)
            self._last_step = number
            self._expect(number + self._stride)

    def _expect(self, number: int) -> None:
        """Prepares for the coming forward pass of a step that will be measured."""
        self._instruments.begin(number)
        self._granted = self._governor.grants()
        if self._granted and self.config.schedule.is_due(number):
            self._instruments.expect(number)

    def _name_first_non_finite(self, number: int, replay: Callable[[], Any]) -> None:
        if self._model is None:
            return
        name = find_first_non_finite(self._model, replay)
        found = f"the first output that is not finite is that of {name}" if name else "all outputs are finite"
        if self._run is not None:
            self._run.alert(
                "first_non_finite", f"step {number}, forward pass repeated: {found}", step=number, level="error"
            )

    def _alert_failure(self, message: str) -> None:
        if self._run is not None:
            self._run.alert("session_failure", message, step=max(0, self._last_step))


def _check(model: object, optimizer: object, config: DebugConfig, stability: object) -> None:
    if model is not None and not isinstance(model, torch.nn.Module):
        raise SessionError(f"model is {type(model).__name__} {model!r}; expected a torch.nn.Module, or None")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise SessionError(f"optimizer is {type(optimizer).__name__}; expected a torch.optim.Optimizer, or None")
    wanted = [name for name in ("updates", "weights", "optimizer_state") if getattr(config, name)]
    if wanted and model is not None and optimizer is None:
        raise SessionError(f"the configuration has {wanted[0]}=True and there is no optimizer; expected one")
    if stability is not None and (model is None or optimizer is None):
        raise SessionError(
            "a stability manager needs a model and an optimizer; expected DebugSession(model, optimizer)"
        )
