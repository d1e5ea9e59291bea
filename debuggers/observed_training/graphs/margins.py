"""Losses of pairs, ranks and margins: what they want to be larger than what, and by how much."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value
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

HINGES: Final = frozenset(["Relu", "ClampMin", "Clamp"])
_SOFT: Final = {"Softplus": 1.0, "LogSigmoid": -1.0}
"""Smooth hinges, and the sign with which they take what they make small."""
_JOINS: Final = {"Add": (1.0, 1.0), "Sub": (1.0, -1.0), "Rsub": (-1.0, 1.0), "Neg": (-1.0, -1.0)}
"""Operators of sums, with the signs of their operands."""
_WITH_RESULT = frozenset(["LinalgVectorNorm", "Norm", "Sqrt", "Exp", "Sigmoid", "Tanh"])
_DEEPEST = 16
_STEADY = 1e-3
"""How far a margin may seem to differ from row to row by rounding, as a share of it and of 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """A function that grows with m + x, where m is constant, and x what training makes small.

    Attributes:
        kind: ``hinge`` for max(0, m + x), ``soft_margin`` for log(1 + exp(m + x)).
        node: That of the function.
        sum: The node of m + x, or of its negative.
        sign: 1, or -1 for its negative.
        terms: The nodes that x is made of.
        targets: The node that multiplies with the targets, of 1 and -1; None without.
        grows: Whether the loss grows with the first term times the targets: then these are the negative of what they
            are where it falls.
        is_shifted: Whether something is added to x.
    """

    kind: str
    node: Any
    sum: Any
    sign: float
    terms: tuple[Any, ...]
    targets: Any = None
    grows: bool = False
    is_shifted: bool = False

    @property
    def compares(self) -> bool:
        """Whether x is a difference of what is trained on both sides."""
        return len(self.terms) > 1


def margin_of(name: str, node: Any) -> Margin | None:
    """Returns what an operator is as a loss of margins; None for another one, and for one term without targets."""
    inner = operands(node)
    if len(inner) != 1 or not shape_of(inner[0]):
        return None
    if name in HINGES:
        low, high = saved_value(node, "min"), saved_value(node, "max")
        if name != "Relu" and (low is None or float(low) != 0 or high is not None):
            return None
        kind, sign = "hinge", 1.0
    elif name in _SOFT:
        kind, sign = "soft_margin", _SOFT[name]
    else:
        return None
    found = _Sum()
    found.take(inner[0], sign, _DEEPEST)
    signs = {sign > 0 for sign, _ in found.terms}
    terms = tuple(term for _, term in found.terms)
    compares = len(terms) > 1 and (len(signs) > 1 or found.targets is not None)
    if not found.is_plain or not (compares or (len(terms) == 1 and found.targets is not None)):
        return None
    return Margin(kind, node, inner[0], sign, terms, found.targets, found.terms[0][0] > 0, found.is_shifted)


class _Sum:
    """What a sum of single elements is made of."""

    def __init__(self) -> None:
        self.terms: list[tuple[float, Any]] = []
        self.targets: Any = None
        self.is_plain, self.is_shifted = True, False

    def take(self, node: Any, sign: float, deepest: int) -> None:
        name, inner = operator(node), operands(node)
        if is_leaf(node) or not deepest:
            self.is_plain = False
        elif name in _JOINS:
            sides = node.next_functions
            self.is_shifted |= len(inner) < 2 and name != "Neg"
            for side, (following, _) in zip(_JOINS[name], sides, strict=False):
                if following is not None:
                    self.take(following, sign * side, deepest - 1)
        elif name == "Mul" and len(inner) == 1 and not is_leaf(inner[0]):
            constant = constant_operand(node)
            if isinstance(constant, torch.Tensor) and constant.ndim:
                self.is_plain &= self.targets is None and constant.numel() == math.prod(shape_of(node))
                self.targets = node
                self.take(inner[0], sign, deepest - 1)
            elif (number := number_on_host(constant)) is not None:
                self.take(inner[0], sign * number, deepest - 1)
            else:
                self.is_plain = False
        elif name in ("Squeeze", "Unsqueeze", "View", "Reshape") and len(inner) == 1:
            before = len(self.terms)
            self.take(inner[0], sign, deepest - 1)
            if len(self.terms) == before + 1 and self.terms[-1][1] is inner[0]:
                self.terms[-1] = (self.terms[-1][0], node)
        else:
            self.terms.append((sign, node))


def order_and_tie(
    margin: Margin, values: Mapping[int, torch.Tensor]
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Returns the share of rows that are in the order that the loss asks for, and the loss where all outputs are equal.

    Both are 0-d; None where the graph has not saved what they are computed from. Of scores with targets there is no
    order, and the loss is that of scores of 0.

    Args:
        margin: Of a graph that is still there.
        values: The model's outputs by the numbers of their nodes.
    """
    part = _trained_part(margin.sum, values, _DEEPEST)
    if part is None:
        return None, None
    part = part * margin.sign
    order = ((part < 0).double() + 0.5 * (part == 0)).mean() if margin.compares else None
    shift = _shift(margin, part)
    if shift is None:
        return order, None
    tie = shift.clamp(min=0) if margin.kind == "hinge" else torch.nn.functional.softplus(shift)
    return order, tie


def left_out(margin: Margin) -> torch.Tensor | None:
    """Returns the share of scores that are multiplied with 0, of which nothing is asked; 0-d, None without targets."""
    factor = None if margin.compares or margin.targets is None else constant_operand(margin.targets)
    return (factor == 0).double().mean() if isinstance(factor, torch.Tensor) else None


def _shift(margin: Margin, part: torch.Tensor) -> torch.Tensor | None:
    """The constant m; None where it is not saved, NaN where it is no constant."""
    if not margin.is_shifted:
        return part.new_zeros((), dtype=torch.float64)
    result = saved_value(margin.node, "result")  # of a ReLU, which shows what is above zero
    whole = saved_value(margin.node, "self") if result is None else result
    if not isinstance(whole, torch.Tensor) or whole.shape != part.shape:
        return None
    whole = whole.detach()
    rest = (whole * (1.0 if result is not None else margin.sign) - part).double()
    shown = torch.ones_like(rest, dtype=torch.bool) if result is None else whole > 0
    low, high = rest.where(shown, math.inf).amin(), rest.where(shown, -math.inf).amax()
    return torch.where(high - low <= _STEADY * (1 + low.abs()), (low + high) / 2, torch.nan)


def _trained_part(node: Any, values: Mapping[int, torch.Tensor], deepest: int) -> torch.Tensor | None:
    """What a node puts out without what is constant and added to it; None where that was not saved."""
    if node_number(node) in values:
        return values[node_number(node)]
    name, inner = operator(node), operands(node)
    if is_leaf(node) or not deepest:
        return None
    if name in _JOINS:
        total: torch.Tensor | None = None
        for sign, (following, _) in zip(_JOINS[name], node.next_functions, strict=False):
            if following is not None:
                value = _trained_part(following, values, deepest - 1)
                if value is None:
                    return None
                total = sign * value if total is None else total + sign * value
        return total
    if name in _WITH_RESULT:
        return _detached(saved_value(node, "result"))
    if name == "Sum":
        return _summed(node, inner, values, deepest)
    if len(inner) != 1:
        return _product(name, node)
    value = _trained_part(inner[0], values, deepest - 1) if name in PASSING or name == "Mul" else None
    if name == "Pow" and (base := _detached(saved_value(node, "self"))) is not None:
        power: torch.Tensor = base ** saved_value(node, "exponent")
        return power
    if value is None:
        return None
    if name == "Mul":
        constant = constant_operand(node)
        return None if constant is None else value * constant
    return _passed_on(name, node, value)


def value_of(node: Any, values: Mapping[int, torch.Tensor]) -> torch.Tensor | None:
    """Returns what a node puts out, up to a constant that is added; None where the graph has not saved it."""
    return _trained_part(node, values, _DEEPEST)


def _summed(node: Any, inner: list[Any], values: Mapping[int, torch.Tensor], deepest: int) -> torch.Tensor | None:
    """The sums along some dimensions."""
    dims = saved_value(node, "dim")
    value = _trained_part(inner[0], values, deepest - 1)
    if value is None or not isinstance(dims, (list, tuple)) or not dims:
        return None
    sizes = len(value.shape)
    places = [dim - (1 << 64) if dim >= 1 << 63 else dim for dim in dims]
    return value.sum([place % sizes for place in places], keepdim=bool(saved_value(node, "keepdim")))


def _product(name: str, node: Any) -> torch.Tensor | None:
    """The product or quotient of what is trained on both sides."""
    ours, theirs = _detached(saved_value(node, "self")), _detached(saved_value(node, "other"))
    if ours is None or theirs is None:
        return None
    return ours * theirs if name == "Mul" else ours / theirs if name == "Div" else None


def _passed_on(name: str, node: Any, value: torch.Tensor) -> torch.Tensor | None:
    """What an operator passes on of its operand; None for one that takes some of it in a way that is not known."""
    shape = shape_of(node)
    if name == "Select":
        dim, index = dimension_of(saved_value(node, "dim"), value.ndim), saved_value(node, "index")
        if dim is None or not isinstance(index, int):
            return None
        return value.select(dim, index - (1 << 64) if index >= 1 << 63 else index)
    if name == "Slice":
        dim = dimension_of(saved_value(node, "dim"), value.ndim)
        start, end, step = (saved_value(node, key) for key in ("start", "end", "step"))
        if dim is None or not all(isinstance(one, int) for one in (start, end, step)) or start >= 1 << 63:
            return None
        taken = value[(slice(None),) * dim + (slice(start, min(end, value.shape[dim]), step),)]
        return taken if tuple(taken.shape) == shape else None
    if name in ("Alias", "Clone", "Squeeze", "Unsqueeze", "View", "Reshape", "ReshapeAlias", "UnsafeView", "Flatten"):
        return value.reshape(shape) if value.numel() == math.prod(shape) else None
    return None


def _detached(value: Any) -> torch.Tensor | None:
    return value.detach() if isinstance(value, torch.Tensor) else None
