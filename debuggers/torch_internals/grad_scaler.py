"""What a ``torch.amp.GradScaler`` knows, read without waiting for a device (torch 2.4 to 2.13).

``get_scale`` and ``state_dict`` are public, and wait.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any

from debuggers.torch_import import torch

scale_of: Callable[[torch.amp.GradScaler], torch.Tensor | None] = attrgetter("_scale")
"""Returns the scale as it is now, a 0-d float32 tensor on the device; None before the first use.

It is the same tensor until it is set by hand; each ``update`` changes it in place.
"""
first_scale_of: Callable[[torch.amp.GradScaler], float] = attrgetter("_init_scale")
"""Returns the scale that it was made with."""
pending_scale: Callable[[torch.amp.GradScaler], torch.Tensor | None] = methodcaller("_get_scale_async")
"""Returns what ``scale_of`` does; ``get_scale`` makes a number of it."""
TENSORS = ("_scale", "_growth_tracker")
"""The attributes that hold all that a scaler changes of itself: 0-d tensors, or None before the first use."""


def optimizer_states(scaler: torch.amp.GradScaler) -> dict[int, dict[str, Any]]:
    """Returns what a scaler knows of each optimizer since its last ``update``, by the optimizer's ``id``."""
    states: dict[int, dict[str, Any]] = getattr(scaler, "_per_optimizer_states", {})
    return states


def is_unscaled(state: dict[str, Any]) -> bool:
    """Whether an optimizer's gradients were unscaled, also by its step, as its entry of ``optimizer_states`` tells."""
    return bool(state["stage"].name != "READY")


def forget_optimizers(scaler: torch.amp.GradScaler) -> None:
    """Has a scaler begin anew with every optimizer, as after ``update``, in a table that is new.

    ``optimizer_states`` as they were before stay as they are, for who has kept them.
    """
    # The factory that the table has makes the state of an optimizer that was not unscaled yet.
    scaler._per_optimizer_states = copy.copy(scaler._per_optimizer_states)
    scaler._per_optimizer_states.clear()


def is_fused_step(optimizer: Any) -> bool:
    """Whether a scaler has handed a fused optimizer, for its step, ``grad_scale`` and ``found_inf``: 0-d tensors.

    It takes them away when the step is done.
    """
    return hasattr(optimizer, "found_inf") and hasattr(optimizer, "grad_scale")
