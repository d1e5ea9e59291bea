"""Where a session's NaN come from: its steps that came with a ``replay``, and what ended with an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stepscope.session_stability import SessionStability

if TYPE_CHECKING:
    from stability.first_nan.finder import FirstNaNFinder
    from stability.first_nan.output import FirstNaN
    from stability.first_nan.session_finder import SessionFinder


class SessionFirstNaN:
    """The stability manager's finder, or else one that is made for the first step with a ``replay``.

    Without a model it does nothing.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        stability: SessionStability,
    ) -> None:
        self._model, self._emitter, self._scaler, self._stability = model, emitter, scaler, stability
        self._own: SessionFinder | None = None
        self._last: tuple[int, bool | None] | None = None

    @property
    def found(self) -> tuple[FirstNaN, ...]:
        """The answers so far."""
        finder = self._stability.finder or self._own
        return () if finder is None else tuple(finder.found)

    def finder(self, replay: Callable[[], Any] | None) -> FirstNaNFinder | None:
        """Returns what a manager without a finder of its own is to look at a step with, if anything."""
        if replay is not None and self._stability.finder is None:
            return self._made()
        return self._own

    def look(
        self,
        step: int,
        loss: torch.Tensor | float | None,
        *,
        gradients_finite: bool | None,
        replay: Callable[[], Any] | None,
    ) -> None:
        """Looks at a step when there is no manager that does; see ``SessionFinder.look_at_step``."""
        if self._stability.decides:
            return
        finder = self._made() if replay is not None else self._own
        if finder is not None:
            finder.look_at_step(step, loss, gradients_finite=gradients_finite, replay=replay)
        self._last = step, gradients_finite

    def look_at_error(self, error: BaseException | None) -> None:
        """Looks at an exception that ends the session; one that is no ``Exception`` is nobody's fault."""
        if isinstance(error, Exception):
            finder = self._stability.finder or self._made()
            if finder is not None:
                finder.look_at_error(error)

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self._scaler = scaler
        if self._own is not None:
            self._own.bind(self._emitter, scaler)

    def pause(self) -> None:
        """Removes what hooks there are, until a step with a ``replay`` ends."""
        if self._own is not None:
            self._own.pause()

    def close(self) -> None:
        """Removes the hooks, and what lies on the disk for the time of the session."""
        if self._own is not None:
            self._own.close()

    def _made(self) -> SessionFinder | None:
        if self._own is None and self._model is not None:
            from stability.first_nan.session_finder import SessionFinder

            self._own = SessionFinder(self._model, last=self._last)
            self._own.bind(self._emitter, self._scaler)
        return self._own
