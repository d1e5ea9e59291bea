"""The stability manager as one callable with its debug session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stability.clipping.config import GradientClippingConfig
from stability.debugging.config import PyTorchDebuggingConfig
from stability.first_nan.finder import FirstNaNFinder
from stability.handling.config import NaNHandlingConfig
from stability.monitoring.learned_detector import LearnedDetector
from stability.numerical_stability import NumericalStabilityManager
from stability.recovery.recovery import Recovery
from stability.results.step import DebugSummary, StabilityResult


class TrainingWrapper:
    """Call it after ``backward`` and before ``optimizer.step()``; as a context manager it stops its session."""

    def __init__(self, manager: NumericalStabilityManager) -> None:
        self.manager = manager

    def __call__(
        self,
        model: torch.nn.Module,
        loss: torch.Tensor | float,
        optimizer: torch.optim.Optimizer,
        *,
        step: int | None = None,
        replay: Callable[[], Any] | None = None,
    ) -> StabilityResult:
        """Does what ``NumericalStabilityManager.step`` does."""
        return self.manager.step(model, loss, optimizer, step=step, replay=replay)

    def get_debug_summary(self) -> DebugSummary:
        """Returns the sums of the session, or of all steps when there is no debug configuration."""
        return self.manager.get_debug_summary()

    def stop_debug_session(self) -> list[Path]:
        """Ends the session and returns the files it wrote; a second call does nothing."""
        return self.manager.stop_debug_session()

    def close(self) -> None:
        """Does what ``stop_debug_session`` does."""
        self.manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.manager.stop_debug_session(error)


def create_training_wrapper(
    clipping_config: GradientClippingConfig,
    nan_config: NaNHandlingConfig,
    debug_config: PyTorchDebuggingConfig | None = None,
    *,
    emitter: Emitter | None = None,
    scaler: torch.amp.GradScaler | None = None,
    detector: LearnedDetector | None = None,
    recovery: Recovery | None = None,
    find_first_nan: FirstNaNFinder | None = None,
    model: torch.nn.Module | None = None,
) -> TrainingWrapper:
    """Returns a wrapper around a new manager; with a debug configuration its session starts at once.

    With ``model`` its buffers are kept at once: see ``NumericalStabilityManager.keep_buffers``.
    """
    manager = NumericalStabilityManager(
        clipping_config,
        nan_config,
        debug_config,
        emitter=emitter,
        scaler=scaler,
        detector=detector,
        recovery=recovery,
        find_first_nan=find_first_nan,
    )
    if model is not None:
        manager.keep_buffers(model)
    if debug_config is not None:
        manager.start_debug_session("training")
    return TrainingWrapper(manager)
