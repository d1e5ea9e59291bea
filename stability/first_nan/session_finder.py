"""What a debug session repeats steps with: it sets hooks only while its steps come with a ``replay``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from debuggers.forward_capture import ForwardCapture
from debuggers.step_probe import probe_gradients
from debuggers.torch_import import torch
from stability.first_nan.finder import Fault, FirstNaNFinder
from stability.first_nan.output import FirstNaN
from stability.first_nan.replay_turns import ReplayTurns
from stability.handling.non_finite import SMALLEST_BLAMED_SCALE

STEPS_BETWEEN_REPLAYS = 100


class SessionFinder(FirstNaNFinder):
    """Repeats a faulty step that came with a ``replay``, and no other.

    From the first such step on it keeps what forward passes start from, until a step comes without one. It keeps no
    statistics of layers.
    """

    def __init__(self, model: torch.nn.Module, *, last: tuple[int, bool | None] | None = None) -> None:
        """Sets no hook yet.

        Args:
            model: The model.
            last: The last step before, and whether its gradients were finite, as far as that is known.
        """
        capture = ForwardCapture(model, gradients=False)
        capture.detach()
        self._begin(model, None, capture, ReplayTurns(STEPS_BETWEEN_REPLAYS), to_terminal=True)
        if last is not None:
            self._past.saw(last[0], finite=last[1])
            self._next_step = last[0] + 1

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

    def pause(self) -> None:
        """Removes the hooks until the end of the next step."""
        self._capture.detach()

    def _is_scaled_up(self) -> bool:
        scaler = self._scaler
        return scaler is not None and scaler.is_enabled() and scaler.get_scale() > SMALLEST_BLAMED_SCALE

    def _take(
        self, fault: Fault, replay: Callable[[], Any] | None, *, finite: bool | None, is_ours: bool
    ) -> FirstNaN | None:
        try:
            return super()._take(fault, replay, finite=finite, is_ours=is_ours and replay is not None)
        finally:
            if replay is None:
                self._capture.detach()
            else:
                self._capture.attach()


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
