"""What a debug session repeats steps with, and the forward pass before an exception that ends it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.gradients.step_probe import probe_gradients
from debuggers.torch_import import torch
from stability.first_nan.finder import Fault, FirstNaNFinder
from stability.first_nan.output import FirstNaN
from stability.first_nan.replay_turns import ReplayTurns
from stability.handling.non_finite import SMALLEST_BLAMED_SCALE

STEPS_BETWEEN_REPLAYS = 100


class SessionFinder(FirstNaNFinder):
    """Repeats a faulty step that came with a ``replay``, and no other.

    It keeps what the last forward pass started from. Of steps without ``replay`` that is only for an exception that
    ends the session: then neither buffers are kept nor the states of generators, but for torch's on the host. It keeps
    no statistics of layers.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Begins to observe the model's calls; nothing of its layers."""
        capture = ForwardCapture(model, gradients=False)
        self._begin(model, None, capture, ReplayTurns(STEPS_BETWEEN_REPLAYS), to_terminal=True)

    def look_at_step(
        self,
        step: int,
        loss: torch.Tensor | float | None,
        *,
        gradients_finite: bool | None,
        replay: Callable[[], Any] | None,
    ) -> FirstNaN | None:
        """Takes a step that no stability manager has looked at.

        With ``replay`` it waits for a device once, if loss or gradients are there. A GradScaler overflows now and then
        by design: above a scale of 1, a step with a finite loss is no fault.

        Args:
            step: Its number.
            loss: Its loss, if it is known.
            gradients_finite: Whether all gradients are finite; None where that is not known.
            replay: Returns the loss of the same batch.

        Returns:
            The answer; None when there was no question.
        """
        waits = replay is not None
        loss_is_finite = finite_on_host(loss, waits=waits)
        if gradients_finite is None and waits:
            gradients = [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]
            gradients_finite = probe_gradients(gradients).resolve().finite
        overflowed = loss_is_finite is not False and gradients_finite is False and self._is_scaled_up()
        is_faulty = not overflowed and False in (loss_is_finite, gradients_finite)
        finite = False if is_faulty else gradients_finite if not overflowed else True
        fault = Fault(step, loss, loss_is_finite is not False)
        return self._take(fault, replay, finite=finite, is_ours=is_faulty)

    @property
    def unused_passes(self) -> int:
        """See ``ForwardCapture.unused_passes``."""
        return self._capture.unused_passes

    def pause(self) -> None:
        """Observes nothing until ``resume``."""
        self._capture.detach()

    def resume(self) -> None:
        """Goes on after ``pause``."""
        self._capture.attach()

    def _is_scaled_up(self) -> bool:
        scaler = self._scaler
        return scaler is not None and scaler.is_enabled() and scaler.get_scale() > SMALLEST_BLAMED_SCALE

    def _take(
        self, fault: Fault, replay: Callable[[], Any] | None, *, finite: bool | None, is_ours: bool
    ) -> FirstNaN | None:
        try:
            return super()._take(fault, replay, finite=finite, is_ours=is_ours and replay is not None)
        finally:
            self._capture.is_thorough = replay is not None


def finite_on_host(loss: torch.Tensor | float | None, *, waits: bool) -> bool | None:
    """Returns whether a loss is finite; None where that is not known.

    Args:
        loss: A tensor of one element, a number, or None.
        waits: Whether to wait for a device that has it.
    """
    if loss is None:
        return None
    if not isinstance(loss, torch.Tensor):
        return math.isfinite(loss)
    return math.isfinite(loss.detach().item()) if loss.numel() == 1 and (waits or loss.is_cpu) else None
