"""Losses of how far outputs and targets overlap: dice, the intersection over the union, and shares like these."""

from dataclasses import dataclass
from typing import Any, Final

from debuggers.torch_import import torch
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    constant_operand,
    is_leaf,
    operands,
    operator,
    shape_of,
)

_FURTHEST = 32
_SUMS: Final = frozenset(["Sum", "Mean"])
_BESIDE: Final = frozenset(["Add", "Sub", "Rsub"])
"""Operators that bring the targets, or a number that keeps it from zero, into what is divided by."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """A share that grows where outputs are large at targets of 1.

    Attributes:
        outputs: The node of what is multiplied with the targets.
        product: The node of that product.
    """

    outputs: Any
    product: Any


def overlap_of(name: str, node: Any) -> Overlap | None:
    """Returns what an operator is as an overlap; None for another one.

    It is a quotient: sums of outputs times constants, over sums of the same outputs and of something beside them.
    """
    inner = operands(node)
    if name != "Div" or len(inner) != 2:
        return None
    product = _summed_product(inner[0])
    if product is None:
        return None
    outputs = operands(product)[0]
    return Overlap(outputs, product) if _sums_beside(inner[1], _base(outputs)) else None


def _summed_product(node: Any) -> Any:
    """The node of outputs times a constant tensor, if a node is the sum of these, perhaps times or plus a number."""
    is_summed = False
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if len(inner) != 1 or is_leaf(inner[0]):
            return None
        constant = constant_operand(node) if name == "Mul" else None
        if isinstance(constant, torch.Tensor) and constant.ndim:
            return node if is_summed and tuple(constant.shape) == shape_of(node) else None
        is_summed |= name in _SUMS
        if name not in PASSING and name not in _SUMS and name not in ("Mul", "Div", "Add"):
            return None
        node = inner[0]
    return None


def _base(node: Any) -> Any:
    """The node behind those that pass elements on, or multiply them with a number."""
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        is_scaled = name == "Mul" and not getattr(constant_operand(node), "ndim", 0)
        if len(inner) != 1 or not (name in PASSING or is_scaled):
            return node
        node = inner[0]
    return node


def _sums_beside(node: Any, outputs: Any) -> bool:
    """Whether outputs are summed in what a node computes, together with something else."""
    waiting, seen, is_summed, is_beside, is_found = [node], {node}, False, False, False
    while waiting and len(seen) < _FURTHEST:
        node = waiting.pop(0)
        name, inner = operator(node), operands(node)
        if node is outputs:
            is_found = True
            continue
        is_summed |= name in _SUMS
        is_beside |= name in _BESIDE
        new = [one for one in inner if one not in seen and not is_leaf(one)]
        seen.update(new)
        waiting += new
    return is_found and is_summed and is_beside
