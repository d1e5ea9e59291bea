"""The alerts of a session itself: what failed inside it, and where the first NaN came from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stability.first_nan.replay_turns import ReplayTurns

if TYPE_CHECKING:
    from stability.first_nan.output import FirstNaN, FirstNaNOutput

STEPS_BETWEEN_REPLAYS = 100


class SessionAlerts:
    """Emits them; without an emitter it emits nothing.

    Attributes:
        first_nans: Where the NaN came from, of the steps that were repeated here.
    """

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter
        self._turns = ReplayTurns(STEPS_BETWEEN_REPLAYS)
        self._output: FirstNaNOutput | None = None
        self.first_nans: list[FirstNaN] = []

    def failure(self, message: str, step: int) -> None:
        """Says that something inside the session failed."""
        if self._emitter is not None:
            self._emitter.alert("session_failure", message, step=max(0, step))

    def first_nan(
        self,
        model: torch.nn.Module,
        replay: Callable[[], Any],
        step: int,
        *,
        loss: torch.Tensor | float | None,
        faulty: bool,
        scaler: torch.amp.GradScaler | None,
    ) -> None:
        """Repeats the first step of a fault, at most one in 100, and tells which operator made the first NaN.

        A GradScaler overflows now and then by design: with one, a step with a finite loss is no fault.
        """
        scaling = scaler is not None and scaler.is_enabled()
        faulty = faulty and not (scaling and loss is not None and math.isfinite(loss))
        if not self._turns.is_due(step, faulty=faulty):
            return
        from debuggers.first_non_finite import replay_closure
        from stability.first_nan.output import FirstNaN, FirstNaNOutput

        scale = scaler.get_scale() if scaler is not None and scaling else 1.0
        result = replay_closure(model, replay, scale=scale)
        answer = FirstNaN(step=step, origin=result.origin, seen_first=None, history=(), notes=result.notes)
        self.first_nans.append(answer)
        self._output = self._output or FirstNaNOutput(to_terminal=True)
        self._output.tell(answer, self._emitter)

    def close(self) -> None:
        """Removes what lies on the disk for the time of the session."""
        if self._output is not None:
            self._output.close()


def is_faulty(loss: torch.Tensor | float | None, gradients_finite: bool | None) -> bool:
    """Whether a loss or a gradient is not finite, as far as that is known on the host."""
    if gradients_finite is False:
        return True
    if isinstance(loss, torch.Tensor):
        return loss.is_cpu and loss.numel() == 1 and not math.isfinite(loss.detach())
    return loss is not None and not math.isfinite(loss)
