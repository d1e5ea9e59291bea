"""Where a session's NaN come from: those of steps with a ``replay``, and of one that ended with an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stepscope.sessions.stability import SessionStability

if TYPE_CHECKING:
    from stability.first_nan.output import FirstNaN
    from stability.first_nan.session_finder import SessionFinder


class SessionFirstNaN:
    """The stability manager's finder, or else one of its own. Without a model it does nothing."""

    def __init__(
        self,
        model: torch.nn.Module | None,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        stability: SessionStability,
    ) -> None:
        self._model, self._emitter, self._scaler, self._stability = model, emitter, scaler, stability
        self.own: SessionFinder | None = None
        self._unused_passes: int | None = None

    def start(self) -> None:
        """Begins to observe the model's calls, unless a manager's finder does."""
        if self._model is not None and self._stability.finder is None:
            from stability.first_nan.session_finder import SessionFinder

            self.own = SessionFinder(self._model)
            self.own.bind(self._emitter, self._scaler)

    @property
    def found(self) -> tuple[FirstNaN, ...]:
        """The answers so far."""
        finder = self._stability.finder or self.own
        return () if finder is None else tuple(finder.found)

    @property
    def unused_passes(self) -> int:
        """Forward passes in training mode after the last step, or the end of the last pause; 0 if they are few."""
        if self._unused_passes is not None:
            return self._unused_passes
        return 0 if self.own is None else self.own.unused_passes

    def look(
        self,
        step: int,
        loss: torch.Tensor | float | None,
        *,
        gradients_finite: bool | None,
        replay: Callable[[], Any] | None,
    ) -> None:
        """Looks at a step when there is no manager, which does; see ``SessionFinder.look_at_step``."""
        if self.own is not None and not self._stability.decides:
            self.own.look_at_step(step, loss, gradients_finite=gradients_finite, replay=replay)

    def look_at_error(self, error: BaseException | None) -> None:
        """Looks at an exception that ends the session; one that is no ``Exception`` is nobody's fault."""
        finder = self._stability.finder or self.own
        if isinstance(error, Exception) and finder is not None:
            finder.look_at_error(error)

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self._scaler = scaler
        if self.own is not None:
            self.own.bind(self._emitter, scaler)

    def pause(self) -> None:
        """Observes nothing until ``resume``."""
        if self.own is not None:
            self.own.pause()

    def resume(self) -> None:
        """Goes on after ``pause``."""
        if self.own is not None:
            self.own.resume()

    def close(self) -> None:
        """Ends observing, and removes what lies on the disk for the time of the session."""
        self._unused_passes = self.unused_passes
        if self.own is not None:
            self.own.close()
