"""Makes the optimizer's next step change nothing: no weight, no momentum, no decay, no step count."""

import inspect
import weakref
from functools import cache
from itertools import chain

from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import SkippedStep, held_parameters, is_stepping
from stability.errors import StabilityError


class StepSkipper:
    """Drops a step's gradients and keeps the optimizer from stepping without them.

    Gradients become None, so that nothing of them reaches a later accumulation. A stand-in for ``optimizer.step`` does
    nothing while no gradient has come back: optimizers that count steps or decay weights without gradients do not, and
    a closure is not called. It gives way as soon as it was called, as gradients are there again, or as the manager
    sees the next step, so that a loop that leaves out ``optimizer.step()`` itself loses no other step.
    """

    def __init__(self) -> None:
        self._stand_ins: weakref.WeakKeyDictionary[torch.optim.Optimizer, SkippedStep] = weakref.WeakKeyDictionary()

    def skip(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Drops the gradients of both, and makes the next ``optimizer.step()`` do nothing.

        From inside an optional closure the gradients alone decide: the step that calls it goes on without them.
        """
        self.release(optimizer)
        for parameter in chain(model.parameters(), held_parameters(optimizer)):
            parameter.grad = None
        if not is_stepping(optimizer):
            self._stand_ins[optimizer] = SkippedStep(optimizer)

    def release(self, optimizer: torch.optim.Optimizer) -> None:
        """Lets the optimizer step again; without a stand-in it does nothing."""
        stand_in = self._stand_ins.pop(optimizer, None)
        if stand_in is not None:
            stand_in.release(optimizer)


def check_outside_closure(optimizer: torch.optim.Optimizer, handling_type: str) -> None:
    """Checks that a step can still be skipped.

    Raises:
        StabilityError: Inside the closure of an optimizer that needs one, as LBFGS: it has changed weights by then.
    """
    if _needs_closure(type(optimizer)) and is_stepping(optimizer):  # type: ignore[arg-type]
        raise StabilityError(
            f"handling_type is {handling_type!r} inside the closure of {type(optimizer).__name__}, whose step cannot "
            "be undone from there; expected manager.step() after a backward pass of its own and before "
            "optimizer.step(closure), or one of 'detect', 'replace', 'gradient_zeroing' and 'gradient_scaling'"
        )


@cache
def _needs_closure(optimizer_type: type[torch.optim.Optimizer]) -> bool:
    closure = inspect.signature(optimizer_type.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
