"""Whether both summands of a binary cross entropy that a loop has written down draw outputs to the same side."""

from collections.abc import Sequence
from typing import Any, Final

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs.loss_term import Term
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import PASSING, constant_operand, operands, operator

_KINDS: Final = frozenset(["bce", "bce_with_logits"])
_LIMITING: Final = frozenset(["Add", "Sub", "Clamp", "ClampMin", "ClampMax"])
_FURTHEST = 8
_ROUNDED = 1e-5


def draw_to_one_side(parts: Sequence[Term]) -> bool:
    """Whether two summands with targets of t and 1 - t draw the same scores to the same side, whatever t is.

    As of t log p + (1 - t) log p, and of t log p - (1 - t) log(1 - p). Not of other scores in each, as of a - b and of
    b - a, or of one for each class. Only where targets lie on the host: nothing waits for a device.
    """
    if len(parts) != 2 or parts[0].kind != parts[1].kind or parts[0].kind not in _KINDS:
        return False
    targets = [constant_operand(part.comparison) for part in parts if operator(part.comparison) == "Mul"]
    if len(targets) < 2 or not all(isinstance(one, torch.Tensor) and one.is_cpu for one in targets):
        return False
    (first, *scores), (second, *others) = (_side(operands(part.comparison)[0]) for part in parts)
    if not first * parts[0].factor * second * parts[1].factor > 0 or targets[0].shape != targets[1].shape:
        return False
    if scores != others:
        return False
    with quiet_computation("cpu"):
        shares = [one.detach().abs() for one in targets]
        return bool(((shares[0] + shares[1] - 1).abs() <= _ROUNDED).all())


def are_of_the_other_side(part: Term) -> bool:
    """Whether a summand's targets are 1 minus those of its outputs: they stand beside the logarithm of 1 - p."""
    node = part.comparison
    return part.kind in _KINDS and operator(node) == "Mul" and _side(operands(node)[0])[0] < 0


def _side(node: Any) -> tuple[int, Any, tuple[int, ...]]:
    """1 for a logarithm of a sigmoid, -1 for one of 1 minus it, 0 for others; and what it is taken of.

    That is a node, and the columns that were selected behind it.
    """
    side, columns = 1, tuple[int, ...]()
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if len(inner) != 1:
            break
        if name == "Sigmoid":
            return side, inner[0], columns
        if name == "LogSigmoid":
            is_turned = operator(inner[0]) == "Neg"
            return (-side, operands(inner[0])[0], columns) if is_turned else (side, inner[0], columns)
        if name == "Rsub" or (name == "Sub" and node.next_functions[0][0] is None):
            side = -side
        elif name == "Select":
            columns = (*columns, int(saved_value(node, "index") or 0))
        elif name not in PASSING | _LIMITING | {"Log"}:
            break
        node = inner[0]
    return 0, None, ()
