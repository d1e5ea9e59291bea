"""A session's stability manager: it decides and clips on the measurement that the session makes anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter

from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.config import DebugConfig

if TYPE_CHECKING:
    from debuggers.first_nan.finder import FirstNaNFinder
    from stability import NumericalStabilityManager
    from stability.emission import Series
    from stability.results.step import StabilityResult


class SessionStability:
    """The manager with what it works on; without a manager it does nothing. What it costs is no overhead."""

    def __init__(
        self,
        manager: NumericalStabilityManager | None,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
    ) -> None:
        self._manager, self._model, self._optimizer = manager, model, optimizer

    def begin(self) -> None:
        """Says that the coming step is the first one, or the first after something else than training."""
        if self._manager is not None and self._model is not None:
            self._manager.keep_buffers(self._model)

    def leave_series_to(self, emitter: Emitter | None, config: DebugConfig) -> None:
        """Has the manager leave out what the session emits by its configuration; None takes that back."""
        if self._manager is None:
            return
        measures = config.enable_gradient_debugging and config.gradients
        series: list[Series] = ["loss"] if config.enable_model_diagnostics else []
        series += ["norms"] if measures else []
        series += ["histograms"] if measures and config.enable_visualization else []
        self._manager.emission.leave_to(emitter, series)

    def note_error(self, error: BaseException) -> None:
        """Takes the exception that ends the training."""
        if self._manager is not None:
            self._manager.note_error(error)

    def check(self, loss: torch.Tensor | float | None) -> None:
        """Checks what the manager would refuse, before anything of the step is measured or emitted.

        Raises:
            SessionError: When there is a manager and no loss.
            StabilityError: From the manager.
        """
        if self._manager is None or self._model is None or self._optimizer is None:
            return
        if loss is None:
            raise SessionError("the session has a stability manager and got no loss; expected session.step(loss)")
        self._manager.check(self._model, loss, self._optimizer)

    @property
    def finder(self) -> FirstNaNFinder | None:
        """The manager's own; None when the manager does not look for the first NaN, and without a manager."""
        return None if self._manager is None else self._manager.first_nan

    @property
    def ended_tools(self) -> tuple[str, ...]:
        """What the manager's debug session watches no more, because it came to its limits."""
        ended = None if self._manager is None else self._manager.get_debug_summary()["tools_ended"]
        if ended is None:
            return ()
        return (f"{', '.join(ended['tools'])} ended after step {ended['step']} ({ended['reason']})",)

    @property
    def decides(self) -> bool:
        """Whether there is a manager."""
        return self._manager is not None

    def unscale(self) -> None:
        """Unscales the gradients before they are measured; the manager would do the same a moment later."""
        if self._manager is not None and self._optimizer is not None:
            self._manager.unscale(self._optimizer)

    def decide(
        self,
        number: int,
        loss: torch.Tensor | float | None,
        summaries: SummaryTable | None,
        replay: Callable[[], Any] | None,
        finder: FirstNaNFinder | None,
    ) -> StabilityResult | None:
        """Lets the manager look, repeat a faulty step, and clip, and returns its result.

        A manager without a finder of its own lets the given one repeat the step, before it repairs anything.
        """
        if self._manager is None or self._model is None or self._optimizer is None or loss is None:
            return None
        return self._manager.step(
            self._model, loss, self._optimizer, step=number, summaries=summaries, replay=replay, finder=finder
        )
