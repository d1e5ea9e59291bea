"""Tells logits that are cosines: products of vectors of length one, perhaps times a constant."""

from typing import Any

from debuggers.observed_training.graphs.loss_formulas import length_one_of
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    constant_operand,
    dimension_of,
    is_leaf,
    number_on_host,
    operands,
    operator,
    shape_of,
)

_PRODUCTS = frozenset(["Mm", "Bmm"])
_FURTHEST = 16


def bound_of_cosines(node: Any) -> float:
    """Returns the largest magnitude of what a node puts out, if it is cosines times constants; 0 for anything else.

    Only of products of two trained sides, whose vectors are divided by their Euclidean lengths. A scale that is trained
    may become any: of those nothing is said.
    """
    factor = 1.0
    for _ in range(_FURTHEST):
        if node is None or is_leaf(node):
            return 0.0
        if are_cosines(node):
            return factor
        name, inner = operator(node), operands(node)
        if len(inner) != 1 or node.next_functions[0][0] is None:
            return 0.0
        if name in ("Mul", "Div"):
            number = number_on_host(constant_operand(node))
            if not number:
                return 0.0
            factor = factor * abs(number) if name == "Mul" else factor / abs(number)
        elif name not in PASSING:
            return 0.0
        node = inner[0]
    return 0.0


def are_cosines(node: Any) -> bool:
    """Whether an operator puts out products of vectors of length one, of which both sides are trained."""
    name, inner = operator(node), operands(node)
    if name in _PRODUCTS and len(inner) == 2:
        return _has_length_one(inner[0], -1) and _has_length_one(inner[1], -2)
    return name == "Sum" and len(inner) == 1 and operator(inner[0]) == "Mul" and _are_summed_cosines(node, inner[0])


def _are_summed_cosines(node: Any, product: Any) -> bool:
    """Whether products of the elements of two vectors of length one are added up along these, as torch's cosines."""
    dims, sides = saved_value(node, "dim"), operands(product)
    length = len(shape_of(product))
    if not isinstance(dims, (list, tuple)) or len(dims) != 1 or len(sides) != 2 or not length:
        return False
    along = dimension_of(dims[0], length)
    if along is None:
        return False
    return all(len(shape_of(one)) == length and _has_length_one(one, along - length) for one in sides)


def _has_length_one(node: Any, dimension: int) -> bool:
    """Whether vectors along a dimension, counted from the end, have length one."""
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if name == "Div":
            norm = length_one_of(node)
            return norm is not None and _runs_along(norm, dimension)
        if name not in PASSING or len(inner) != 1:
            return False
        if dimension < -2 and name != "Expand":
            return False
        dimension = -3 - dimension if _turns(name, node) else dimension
        node = inner[0]
    return False


def _turns(name: str, node: Any) -> bool:
    """Whether an operator exchanges the last two dimensions, as ``.T`` does."""
    dims = saved_value(node, "dims")
    if name == "Permute" and isinstance(dims, (list, tuple)):
        return bool(dims[-2] % len(dims) == len(dims) - 1)
    return name in ("T", "Transpose")


def _runs_along(norm: Any, dimension: int) -> bool:
    shape = shape_of(operands(norm)[0])
    along = saved_value(norm, "dim")
    if saved_value(norm, "ord") != 2 or not isinstance(along, (list, tuple)) or len(along) != 1 or not shape:
        return False
    return bool((along[0] - dimension) % len(shape) == 0)
