"""Distinguishes an optimizer's step from a nested one, as in a class that calls ``super().step()``."""

import sys

from debuggers.instrumentation.compiled_code import never_compiled
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import hooked_steps

never_compiled(hooked_steps)  # dynamo would trace what a skipped function calls


@never_compiled
def is_inner_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the step whose hook calls this runs inside another step of the same optimizer.

    torch has the hooks called around ``step`` of each class of which there was an instance: for an instance of a
    class derived from ``SGD`` twice, once there was an ``SGD``.
    """
    hooked = hooked_steps(optimizer)
    if len(hooked) < 2:
        return False
    wrapper = getattr(hooked[0], "__code__", None)  # all of torch's wrappers share one
    steps = 0
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is wrapper and frame.f_locals.get("self") is optimizer:
            steps += 1
        frame = frame.f_back  # type: ignore[assignment]
    return steps > 1
