"""Where a session's NaN come from: those of steps with a ``replay``, and of one that ended with an exception."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter

from debuggers.gradients.loss_scale import overflow_is_due_to_scale
from debuggers.gradients.step_probe import probe_gradients
from debuggers.torch_import import torch
from stepscope.sessions.stability import SessionStability

if TYPE_CHECKING:
    from debuggers.first_nan.finder import FirstNaNFinder
    from debuggers.first_nan.output import FirstNaN


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
        self.own: FirstNaNFinder | None = None
        self._unused_passes: int | None = None

    def start(self) -> None:
        """Begins to observe the model's calls, unless a manager's finder does."""
        if self._model is not None and self._stability.finder is None:
            from debuggers.first_nan.finder import FirstNaNFinder

            self.own = FirstNaNFinder(self._model, only_with_replay=True).bind(self._emitter, self._scaler)

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
        """Looks at a step when there is no manager, which does.

        With ``replay`` it waits for a device once, if loss or gradients are there. A GradScaler overflows now and then
        by design: above a scale of 1, a step with a finite loss is no fault.

        Args:
            step: Its number.
            loss: Its loss, if it is known.
            gradients_finite: Whether all gradients are finite; None where that is not known.
            replay: Returns the loss of the same batch.
        """
        if self.own is None or self._model is None or self._stability.decides:
            return
        waits = replay is not None
        loss_is_finite = _finite_on_host(loss, waits=waits) is not False
        if gradients_finite is None and waits:
            gradients = [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]
            gradients_finite = probe_gradients(gradients).resolve().finite
        if loss_is_finite and gradients_finite is False and overflow_is_due_to_scale(self._scaler):
            gradients_finite = True
        finite = gradients_finite if loss_is_finite else False
        self.own.look(step, loss, loss_is_finite=loss_is_finite, finite=finite, replay=replay)

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


def _finite_on_host(loss: torch.Tensor | float | None, *, waits: bool) -> bool | None:
    """Whether a loss is finite; None where that is not known. ``waits`` says whether to wait for a device."""
    if not isinstance(loss, torch.Tensor):
        return None if loss is None else math.isfinite(loss)
    return math.isfinite(loss.detach().item()) if loss.numel() == 1 and (waits or loss.is_cpu) else None
