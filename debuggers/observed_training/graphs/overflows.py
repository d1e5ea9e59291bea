"""Exponentials in the graph of a loss that are too large for their dtype, as those of a softmax that a loop writes."""

from typing import Any

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import operands, operator

MOST_NODES = 128
"""The most nodes of a graph that are looked at, from the loss back."""
MOST_ELEMENTS = 1 << 16
"""The most elements of an exponential that are looked at."""


def overflowed(root: Any) -> str | None:
    """Returns what to say of an exponential that is infinite; "" if none is, None if there is none to look at.

    Only of those on the host: nothing waits for a device.
    """
    waiting, seen, found = [root], {root}, None
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop(0)
        if operator(node) == "Exp":
            result = saved_value(node, "result")
            if isinstance(result, torch.Tensor) and result.is_cpu and 0 < result.numel() <= MOST_ELEMENTS:
                found = ""
                with quiet_computation("cpu"):
                    if bool(result.detach().isinf().any()):
                        return f"exp puts out infinity in {tuple(result.shape)}"
        new = [one for one in operands(node) if one not in seen]
        seen.update(new)
        waiting += new
    return found
