"""The debug sessions of a manager: started, ended, and asked for what they found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.torch_import import torch
from stability.debugging.manager import PyTorchDebuggingManager
from stability.emission import StabilityEmission
from stability.history_views import HistoryViews
from stability.monitoring.history import History
from stability.results.debugging import GradientCheck
from stability.results.step import DebugSummary


@methods_between_graphs
class DebugSessions(HistoryViews):
    """What a manager does for its debug session beside its steps, which count from 0."""

    def __init__(self, history: History, emission: StabilityEmission, debugging: PyTorchDebuggingManager) -> None:
        super().__init__(history, emission)
        self._debugging = debugging
        self._next_step = 0

    def start_debug_session(self, name: str = "debug") -> None:
        """Starts to collect ``debug_info``; see ``PyTorchDebuggingManager.start`` for what it raises."""
        self._debugging.start(name)

    def stop_debug_session(self, error: BaseException | None = None) -> list[Path]:
        """Ends the session and returns the files it wrote; without a session it does nothing.

        ``error`` is what ended the run, if something did: it is told with the last step's state.
        """
        if error is not None:
            self.note_error(error)
        return self._debugging.stop(error)

    def close(self) -> None:
        """Ends the debug session, if one runs; a second call does nothing."""
        self.stop_debug_session()

    def note_error(self, error: BaseException) -> None:
        """Records the step that an exception ended before ``step`` was called.

        That is one whose backward pass raised, in a debug session that is to raise. Other exceptions, and a second
        call, change nothing. ``stop_debug_session(error)`` does it, and training wrapper and ``DebugSession`` do.
        """
        raised = self._debugging.note_error(error, self._next_step)
        if raised is not None:
            self._emission.unfinished(self._history.add_unfinished(self._next_step, raised.loss))
            self._next_step += 1

    def check_function(
        self, function: Callable[..., Any], inputs: torch.Tensor | Sequence[torch.Tensor], **options: Any
    ) -> GradientCheck:
        """Compares the gradients of a function with finite differences; see ``PyTorchDebuggingManager``."""
        return self._debugging.check_function(function, inputs, **options)

    def save_cuda_snapshot(self) -> Path:
        """Saves a snapshot of the CUDA allocator; see ``PyTorchDebuggingManager`` for what it raises."""
        return self._debugging.save_cuda_snapshot()

    def get_debug_summary(self) -> DebugSummary:
        """Returns the sums of the running or the last session, or of all steps when there was none."""
        return self._debugging.summary()
