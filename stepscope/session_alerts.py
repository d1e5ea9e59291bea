"""The alerts of a session itself: what failed inside it, and where the first NaN came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.first_non_finite import find_first_non_finite
from debuggers.torch_import import torch


class SessionAlerts:
    """Emits them; without an emitter it emits nothing."""

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter

    def failure(self, message: str, step: int) -> None:
        """Says that something inside the session failed."""
        if self._emitter is not None:
            self._emitter.alert("session_failure", message, step=max(0, step))

    def first_non_finite(self, model: torch.nn.Module, replay: Callable[[], Any], step: int) -> None:
        """Repeats the forward pass, and names the module that put out the first NaN or infinity."""
        name = find_first_non_finite(model, replay)
        found = f"the first output that is not finite is that of {name}" if name else "all outputs are finite"
        if self._emitter is not None:
            self._emitter.alert(
                "first_non_finite", f"step {step}, forward pass repeated: {found}", step=step, level="error"
            )
