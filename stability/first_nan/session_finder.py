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

    def __init__(self, model: torch.nn.Module) -> None:
        """Sets no hook yet."""
        capture = ForwardCapture(model, gradients=False)
        capture.detach()
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
        value = loss.detach() if isinstance(loss, torch.Tensor) else loss
        loss_is_finite = replay is None or value is None or math.isfinite(value)
        if gradients_finite is None:
            gradients = [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]
            gradients_finite = replay is None or probe_gradients(gradients).resolve().finite
        overflowed = loss_is_finite and not gradients_finite and self._is_scaled_up()
        finite = loss_is_finite and gradients_finite
        fault = Fault(step, loss, loss_is_finite)
        return self._take(fault, replay, finite=finite or overflowed, is_ours=not finite and not overflowed)

    def pause(self) -> None:
        """Removes the hooks until the end of the next step."""
        self._capture.detach()

    def _is_scaled_up(self) -> bool:
        scaler = self._scaler
        return scaler is not None and scaler.is_enabled() and scaler.get_scale() > SMALLEST_BLAMED_SCALE

    def _take(self, fault: Fault, replay: Callable[[], Any] | None, *, finite: bool, is_ours: bool) -> FirstNaN | None:
        try:
            return super()._take(fault, replay, finite=finite, is_ours=is_ours and replay is not None)
        finally:
            if replay is None:
                self._capture.detach()
            else:
                self._capture.attach()
