"""The manager of debug sessions: it starts and stops them, and counts anomalies with and without one."""

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import finalize

from debuggers.instrumentation.seen_errors import SeenErrors
from debuggers.torch_import import torch
from stability.config_checks import check_config
from stability.debugging.anomaly_mode import RaisedInBackward, raised_in_backward
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.gradient_check import CheckLimits
from stability.debugging.module_check import check_function
from stability.debugging.session import SessionRecord, ToolSession
from stability.debugging.tool import StepSeen
from stability.errors import AutogradAnomalyError, StabilityError
from stability.gradients.measure import Gradients
from stability.results.debugging import GradientCheck, GradientMode
from stability.results.step import Anomaly, AnomalyKind, DebugInfo, DebugSummary

FUNCTION_BUDGET_S = 60.0
_RAISED: frozenset[AnomalyKind] = frozenset({"nan_loss", "inf_loss", "nan_gradient", "inf_gradient"})


class PyTorchDebuggingManager:
    """Runs one debug session at a time, which keeps its last 10,000 steps.

    A session collects until ``stop``, ``max_debug_iterations`` steps or ``debug_timeout`` seconds; then its tools are
    off and ``debug_enabled`` is False, which is told once, while anomalies are counted, and raised in the mode
    ``"raise"``, until ``stop``. A session that nobody stopped ends with the manager or the process.
    """

    def __init__(self, config: PyTorchDebuggingConfig | None = None, emitter: Emitter | None = None) -> None:
        """Makes a manager.

        Args:
            config: What a session does; without it none can be started.
            emitter: Takes what sessions find.

        Raises:
            StabilityConfigError: When ``config`` is something else.
        """
        if config is not None:
            check_config("debug_config", config, PyTorchDebuggingConfig)
        self._config = config
        self._emitter = emitter
        self._record = SessionRecord()
        self._session: ToolSession | None = None
        self._at_the_end: weakref.finalize[..., PyTorchDebuggingManager] | None = None
        self._next_step = 0
        self._noted = SeenErrors()

    def start(self, name: str) -> None:
        """Starts a session and forgets the one before.

        Raises:
            StabilityError: When one is running, or there is no debug configuration.
        """
        if self._config is None:
            raise StabilityError(f"no debug session {name!r} without a configuration; expected debug_config=…")
        if (running := self._running()) is not None:
            raise StabilityError(
                f"the debug session {running.record.name!r} is running; expected stop_debug_session() first"
            )
        self._session = ToolSession(name, self._config, self._emitter, self._next_step)
        self._record = self._session.record
        self._at_the_end = finalize(self, self._session.stop)

    def stop(self, error: BaseException | None = None) -> list[Path]:
        """Ends the session and returns the files it wrote; without a session it does nothing.

        A file that cannot be written is logged and does not raise. In a forked child of the process that started the
        session nothing is ended or written.

        Args:
            error: What ended the run, if something did: it is logged and emitted with the last step's state, and with
                a snapshot file of the CUDA allocator when memory ran out.
        """
        session = self._running()
        if session is None or not session.owner_process.is_current:
            return []
        if self._at_the_end is not None:
            self._at_the_end.detach()
        if error is not None:
            session.tell_error(error)
        return session.stop()

    def close(self) -> None:
        """Ends the session as ``stop`` does."""
        self.stop()

    def note_error(self, error: BaseException, step: int) -> RaisedInBackward | None:
        """Records what torch raised in the backward pass of a step, in a session that wants that; None for all else.

        Args:
            error: What ended the run.
            step: The step that it ended in.
        """
        session = self._running()
        raised = raised_in_backward(error) if session is not None and session.raises else None
        if session is None or raised is None or error in self._noted:
            return None
        self._noted.add(error)
        session.tell_raised(Anomaly(kind="nan_gradient", message=raised.message, step=step))
        return raised

    def begin(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """The stability manager's step begins."""
        session = self._running()
        if session is not None:
            session.begin(model, optimizer)

    def observe(self, seen: StepSeen, gradients: Gradients, norms: list[float], total_norm: float) -> DebugInfo:
        """Takes one step and returns its ``debug_info``; after ``stop`` it is counted no more.

        Args:
            seen: The step.
            gradients: Its gradients.
            norms: The norm of each, before clipping.
            total_norm: The norm of all, before clipping.
        """
        self._next_step = seen.number + 1
        if self._session is not None:
            return self._session.observe(seen, gradients, norms, total_norm)
        self._record.iterations += 1
        self._record.count(seen.anomalies)
        return self._record.info(self._config, seen.anomalies, enabled=False)

    def enforce(self, info: DebugInfo) -> None:
        """Raises AutogradAnomalyError for a loss or gradient that is not finite, in a session that wants that."""
        session = self._running()
        found: list[Anomaly] = [anomaly for anomaly in info["anomaly_details"] if anomaly["kind"] in _RAISED]
        if session is not None and session.raises and found:
            raise AutogradAnomalyError(f"step {found[0]['step']}: {found[0]['kind']}: {found[0]['message']}")

    def check_function(
        self,
        function: Callable[..., Any],
        inputs: torch.Tensor | Sequence[torch.Tensor],
        *,
        forward_mode: bool = False,
        masked: bool | None = None,
        budget_s: float = FUNCTION_BUDGET_S,
    ) -> GradientCheck:
        """Compares the gradients of a function with finite differences; see ``check_function`` of ``module_check``.

        Args:
            function: Takes the inputs, in float64, and returns tensors.
            inputs: Its arguments, small; dense or sparse.
            forward_mode: Whether derivatives in forward mode are checked too.
            masked: Whether sparse inputs have derivatives only where they have entries, as of ``gradcheck``.
            budget_s: What it may take, in seconds.

        Raises:
            StabilityError: When an input is no tensor, or none is floating-point or complex.
        """
        modes: tuple[GradientMode, ...] = ("reverse", "forward") if forward_mode else ("reverse",)
        return check_function(function, inputs, CheckLimits(budget_s, modes, masked=masked))

    def save_cuda_snapshot(self) -> Path:
        """Saves a snapshot of the CUDA allocator into the folder of the running or the last session.

        Raises:
            StabilityError: Without a session, or when the process does not use CUDA.
            OSError: When the folder cannot be written to.
        """
        if self._session is None:
            raise StabilityError(
                "no CUDA memory snapshot without a debug session; expected start_debug_session() first"
            )
        return self._session.save_snapshot()

    @property
    def log_level(self) -> AlertLevel:
        """The least severity of the anomalies that are logged."""
        return "info" if self._config is None else self._config.debug_level

    @property
    def tracks_memory(self) -> bool:
        """Whether ``memory_info`` is to be emitted."""
        return self._config is not None and self._config.memory_tracking

    def summary(self) -> DebugSummary:
        """Returns the sums of the running or the last session."""
        return self._record.summary([]) if self._session is None else self._session.summary()

    def _running(self) -> ToolSession | None:
        session = self._session
        return session if session is not None and session.record.stopped is None else None
