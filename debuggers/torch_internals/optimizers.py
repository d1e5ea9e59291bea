"""How torch calls the hooks of an optimizer's step, and how one step is left out (torch 2.7 to 2.15).

What is done to an optimizer, and how it is undone: ``SkippedStep`` sets ``step`` in its ``__dict__`` and takes it away
again; the mark of a step that was taken, which is also in the ``__dict__``, stays. Nothing is done to its class.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType, MethodType
from typing import Any

from debuggers.torch_import import torch


def hooked_steps(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Returns the functions named ``step`` of an optimizer's classes that call its hooks.

    torch puts such a function, marked ``hooked``, in the place of ``step`` of each class of which there was an
    instance. All have the same ``__code__`` and a variable ``self``.
    """
    hooked = []  # filled by a loop: a comprehension is a function of its own, which dynamo would trace
    for kind in type(optimizer).__mro__:
        step = kind.__dict__.get("step")
        if step is not None and getattr(step, "hooked", False):
            hooked.append(step)
    return hooked


def is_stepping(*optimizers: torch.optim.Optimizer) -> bool:
    """Whether this is called from within ``step`` of one of these optimizers, by a closure or a hook.

    In the way is the frame of a function called ``step``, or of torch's function around it, which is called
    ``wrapper``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("step", "wrapper"):
            owner = frame.f_locals.get("self")
            if any(owner is one for one in optimizers):
                return True
        frame = frame.f_back
    return False


def held_parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Returns the parameters of all groups."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def has_hooks(optimizer: torch.optim.Optimizer, *, of_its_own: bool = False) -> bool:
    """Whether an optimizer has hooks, if wanted ``of_its_own``.

    A wrapper that leaves torch's constructor out has none, as Accelerate's, or shows those of what it wraps, as
    Lightning's.
    """
    return "_optimizer_step_pre_hooks" in vars(optimizer) or (
        not of_its_own and hasattr(optimizer, "_optimizer_step_pre_hooks")
    )


class ReleasedParameters:
    """Which parameters an optimizer has held and holds no more; keeps none of them alive."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._groups: tuple[tuple[int, int], ...] = ()
        self._held: dict[int, weakref.ref[torch.Tensor]] = {}
        self._released: dict[int, weakref.ref[torch.Tensor]] = {}

    def look(self) -> bool:
        """Returns whether there are any; looks at parameters only where a group has another list or length."""
        groups = tuple((id(group["params"]), len(group["params"])) for group in self._optimizer.param_groups)
        if groups != self._groups:
            self._groups = groups
            held = {id(parameter): weakref.ref(parameter) for parameter in held_parameters(self._optimizer)}
            self._held |= held
            self._released = {key: before for key, before in self._held.items() if key not in held}
        return bool(self._released)

    def __contains__(self, parameter: torch.Tensor) -> bool:
        """Whether a parameter is one of them, as of the last look."""
        before = self._released.get(id(parameter))
        return before is not None and before() is parameter


class SkippedStep:
    """Takes the place of ``optimizer.step`` for one call, which does nothing where no parameter has a gradient.

    A hook could not: to keep a step from running it has to raise. Schedulers see the step as taken. The call
    undoes the exchange, or else ``release``.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._pending = True
        self._before = optimizer.__dict__.get("step")
        step: Any = optimizer.step
        bound = getattr(step, "__self__", None) is optimizer
        step = step.__func__ if bound else step

        def stand_in(owner: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            pending, self._pending = self._pending, False
            self.release(owner)
            if pending and all(parameter.grad is None for parameter in held_parameters(owner)):
                owner.__dict__["_opt_called"] = True  # without it schedulers warn that the loop never steps
                return None
            return step(owner, *args, **kwargs) if bound else step(*args, **kwargs)

        # Schedulers and GradScaler inspect the signature and the attributes of the function.
        stand_in.__dict__.update(getattr(step, "__dict__", {}))
        self._function = stand_in
        optimizer.__dict__["step"] = MethodType(stand_in, optimizer)

    def release(self, optimizer: torch.optim.Optimizer) -> None:
        """Puts back what was there, unless a scheduler has wrapped the stand-in meanwhile: then it only passes on."""
        self._pending = False
        if getattr(optimizer.__dict__.get("step"), "__func__", None) is not self._function:
            return
        if self._before is None:
            del optimizer.__dict__["step"]
        else:
            optimizer.__dict__["step"] = self._before


def resting_parameters(optimizer: torch.optim.Optimizer) -> set[int]:
    """Returns the ``id`` of each parameter in a group whose rate is 0; a rate that is a tensor may be on a device."""
    return {
        id(parameter)
        for group in optimizer.param_groups
        if isinstance(group.get("lr"), int | float) and not group["lr"]
        for parameter in group["params"]
    }
