"""Tells what a loss compares: distances, differences, or outputs of which a dropout has zeroed some."""

from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    PICKING,
    constant_operand,
    is_leaf,
    number_on_host,
    operands,
    operator,
)

_DISTANCES = frozenset(["Cdist", "EuclideanDist"])
_LENGTHS = frozenset(["LinalgVectorNorm", "Norm"])
_SQUARES = frozenset(["Pow", "Square"])
_DROPOUTS = frozenset(["NativeDropout", "FusedDropout"])
_FURTHEST = 8
_MOST_READ = 1 << 14
"""Elements of a mask that are read, on the host."""


def are_distances(node: Any) -> bool:
    """Whether a node puts out distances of trained vectors, perhaps squared or times a positive constant.

    As ``torch.cdist``, the norm of a difference, or the sum of its squares.
    """
    for _ in range(_FURTHEST):
        if node is None:
            return False
        name, inner = operator(node), operands(node)
        if name in _DISTANCES:
            return True
        if name in _LENGTHS and inner:
            return operator(inner[0]) == "Sub"
        if name == "Sum" and inner and operator(inner[0]) in _SQUARES:
            return _is_squared_difference(inner[0])
        if len(inner) != 1:
            return False
        if name in ("Mul", "Div"):
            number = number_on_host(constant_operand(node))
            if number is None or number <= 0:
                return False
        elif name in _SQUARES:
            if _exponent_of(node) <= 0:  # what is near has the highest score then
                return False
        elif name not in PASSING | {"Sqrt"}:
            return False
        node = inner[0]
    return False


def _exponent_of(node: Any) -> float:
    """The exponent of a power; 0 where it is no number on the host."""
    exponent = saved_value(node, "exponent")
    return 2.0 if exponent is None and operator(node) == "Square" else number_on_host(exponent) or 0.0


def _is_squared_difference(node: Any) -> bool:
    """Whether a node is the square of a difference of two sides that are trained."""
    inner = operands(node)
    return _exponent_of(node) == 2 and bool(inner) and operator(inner[0]) == "Sub" and len(operands(inner[0])) == 2


def are_differences(node: Any) -> bool:
    """Whether a node puts out differences of two sides that are computed alike, perhaps scaled or by a sigmoid.

    As scores of the better and the worse of a pair: what is added to both cancels.
    """
    for _ in range(_FURTHEST):
        if node is None:
            return False
        name, inner = operator(node), operands(node)
        if name == "Sub":
            return len(inner) == 2 and not any(map(is_leaf, inner))
        if len(inner) != 1 or name not in PASSING | PICKING | {"Sigmoid", "LogSigmoid", "Mul", "Div"}:
            return False
        node = inner[0]
    return False


def dropped_share(node: Any) -> float:
    """Returns the share of what a node puts out that a dropout has set to zero just there; 0 for none.

    On the host, torch's dropout is a product with a mask of zeros and ``1 / (1 - p)``. Where it is an operator of its
    own, it keeps p.
    """
    for _ in range(_FURTHEST):
        if node is None:
            return 0.0
        name, inner = operator(node), operands(node)
        if name in _DROPOUTS:
            share = saved_value(node, "p")
            return float(share) if isinstance(share, float) else 0.0
        if name == "Mul":
            return _zeros_of(constant_operand(node))
        if name not in PASSING or len(inner) != 1:
            return 0.0
        node = inner[0]
    return 0.0


def _zeros_of(mask: Any) -> float:
    """The share of zeros of a mask whose other elements are all one number above 1, which makes up for them."""
    if not isinstance(mask, torch.Tensor) or not mask.is_cpu or not 1 < mask.numel() <= _MOST_READ:
        return 0.0
    if not mask.is_floating_point() or mask.layout is not torch.strided:
        return 0.0
    mask = mask.detach()
    largest = float(mask.max())
    if not largest > 1 or not bool(((mask == 0) | (mask == largest)).all()):
        return 0.0
    return float((mask == 0).double().mean())
