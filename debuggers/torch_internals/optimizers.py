"""How torch calls the hooks of an optimizer's step, and what it marks it with (torch 2.4 to 2.13)."""

from __future__ import annotations

from types import FrameType
from typing import Any

from debuggers.torch_import import torch


def hooked_steps(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Returns the functions named ``step`` of an optimizer's classes that call its hooks.

    torch puts such a function, marked ``hooked``, in the place of ``step`` of each class of which there was an
    instance. All have the same ``__code__`` and a variable ``self``.
    """
    hooked = []  # filled by a loop: a comprehension is a function of its own, which dynamo would look at
    for kind in type(optimizer).__mro__:
        step = vars(kind).get("step")
        if getattr(step, "hooked", False):
            hooked.append(step)
    return hooked


def is_step_of(frame: FrameType, optimizer: torch.optim.Optimizer) -> bool:
    """Whether a frame is a step of an optimizer, or torch's function around it, which is called ``wrapper``."""
    return frame.f_code.co_name in ("step", "wrapper") and frame.f_locals.get("self") is optimizer


def mark_as_stepped(optimizer: torch.optim.Optimizer) -> None:
    """Keeps schedulers from warning that the loop never stepped the optimizer."""
    optimizer.__dict__["_opt_called"] = True
