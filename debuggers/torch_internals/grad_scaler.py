"""What a ``torch.amp.GradScaler`` knows, read without waiting for a device (torch 2.7 to 2.15).

``get_scale`` and ``state_dict`` are public, and wait.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

first_scale_of: Callable[[torch.amp.GradScaler], float] = attrgetter("_init_scale")
"""Returns the scale that it was made with."""


SCALE = "_scale"
"""The attribute that holds the scale."""


def scale_of(scaler: torch.amp.GradScaler) -> torch.Tensor | None:
    """Returns the scale as it is now, a 0-d float32 tensor on the device; None before the first use, and if disabled.

    It is the same tensor until it is set by hand; each ``update`` changes it in place. ``get_scale`` makes a number of
    it.
    """
    scale: torch.Tensor | None = getattr(scaler, SCALE, None)  # a disabled one lacks it
    return scale


@cache
def changes_by_unscaling() -> int:
    """Returns by how much unscaling raises the version of a gradient: 0 where torch does not count it as a change."""
    gradient = torch.ones(1)
    before = version_of(gradient)
    torch._amp_foreach_non_finite_check_and_unscale_([gradient], torch.zeros(1), torch.ones(1))
    return version_of(gradient) - before


def optimizer_states(scaler: torch.amp.GradScaler) -> dict[int, dict[str, Any]]:
    """Returns what a scaler knows of each optimizer since its last ``update``, by the optimizer's ``id``."""
    states: dict[int, dict[str, Any]] = getattr(scaler, "_per_optimizer_states", {})
    return states


def is_unscaled(state: dict[str, Any]) -> bool:
    """Whether an entry of ``optimizer_states`` says that the optimizer's gradients were unscaled, also by its step."""
    return bool(state["stage"].name != "READY")


@contextmanager
def scaler_aside(scaler: torch.amp.GradScaler | None) -> Iterator[None]:
    """Lets a repeated step scale and unscale by a scaler as if the step had just begun; afterwards it is as before.

    Inside, ``optimizer_states`` is a new table, so that the old one stays as it is for who has kept it. The values of
    the scaler's tensors are none of this: a replay puts all memory back that it wrote to.
    """
    if scaler is None or not scaler.is_enabled():
        yield
        return
    before = dict(scaler.__dict__)
    try:
        # The factory that the table has makes the state of an optimizer that was not unscaled yet.
        scaler._per_optimizer_states = copy.copy(scaler._per_optimizer_states)
        scaler._per_optimizer_states.clear()
        yield
    finally:
        scaler.__dict__.update(before)


def tensors_of(scaler: torch.amp.GradScaler | None) -> dict[str, torch.Tensor]:
    """Returns all that a scaler changes of itself, 0-d tensors by name; none before the first use."""
    attributes = {name: getattr(scaler, name, None) for name in (SCALE, "_growth_tracker")}
    return {name: value for name, value in attributes.items() if value is not None}


def handed_to(optimizer: Any) -> tuple[torch.Tensor | None, torch.Tensor] | None:
    """Returns the scale and the overflow that a scaler has handed a fused optimizer for its step; None outside of one.

    Both are 0-d tensors, the overflow above 0 where the optimizer is to update nothing; without a scale the gradients
    were unscaled before. The scaler takes them away when the step is done.
    """
    if hasattr(optimizer, "found_inf") and hasattr(optimizer, "grad_scale"):
        return optimizer.grad_scale, optimizer.found_inf
    return None


def unscaling_changes(scaler: torch.amp.GradScaler | None, *optimizers: torch.optim.Optimizer) -> int:
    """Returns how often a scaler has changed optimizers' gradients since the last pass: 0 without an enabled one."""
    if scaler is None or not scaler.is_enabled():
        return 0
    states = [state for one in optimizers if (state := optimizer_states(scaler).get(id(one))) is not None]
    return changes_by_unscaling() if any(map(is_unscaled, states)) else 0
