"""Tells that a condition on values cannot hold, from extremes, mean and deviation alone, without a whole measurement.

Most conditions wait for something rare, such as ``abs_max > 1e4``, ``nan > 0`` or ``abs(mean) > 0.5``: where all
elements are finite and what is found in one pass over them leaves no doubt, they need not be asked.
"""

import ast
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tracker_adapters.native.extension import kernels

from debuggers.conditional_hooks.extent import RANGES, UNKNOWN, Extent, Interval, of_magnitude, of_spread
from debuggers.host_arrays.readable import is_freed
from debuggers.measurement.kernels.torch_threads import team
from debuggers.torch_import import torch
from debuggers.torch_internals.dispatch import without_overrides

_LARGEST = 1e150
"""Beyond it the squares of a measurement may be infinite."""
_ALONE = 1 << 16
"""Elements that one thread reads, in a tenth of the time of a torch operation."""
_COMPILED = frozenset({torch.float32, torch.float64})
_MOST_COUNTS = 256
_DOUBLINGS = 64

_Range: TypeAlias = Callable[[Extent], Interval]
_Possible: TypeAlias = Callable[[Extent], bool]
_MAY_HOLD: Final[dict[type[ast.cmpop], Callable[[Interval, Interval], bool]]] = {
    ast.Lt: lambda left, right: left[0] < right[1],
    ast.LtE: lambda left, right: left[0] <= right[1],
    ast.Gt: lambda left, right: left[1] > right[0],
    ast.GtE: lambda left, right: left[1] >= right[0],
    ast.Eq: lambda left, right: left[0] <= right[1] and right[0] <= left[1],
    ast.NotEq: lambda left, right: not left[0] == left[1] == right[0] == right[1],
}


class Bounds:
    """Whether a condition may hold of a tensor, as far as ``Extent`` tells."""

    __slots__ = ("_possible", "_ruled_out")

    def __init__(self, possible: Sequence[_Possible]) -> None:
        """Takes the parts that all must hold."""
        self._possible = tuple(possible)
        # By the number of elements: up to which magnitude of all of them none of the parts' values can matter.
        self._ruled_out: dict[int, float] = {}

    def may_hold(self, tensor: torch.Tensor) -> bool:
        """Whether the condition may hold; True wherever that is not known, as on a device."""
        if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
            return True
        count, kind = tensor.numel(), tensor.dtype
        if not count or not kind.is_floating_point or tensor.is_nested or is_freed(tensor):
            return True
        native = kernels() if kind in _COMPILED and tensor.is_contiguous() else None
        if native is None:
            with without_overrides():
                most = torch.linalg.vector_norm(tensor, math.inf).item()
            # Also NaN is not below.
            return not most < _LARGEST or not self._is_ruled_out(count, most)
        start, threads = (0, 0) if count <= _ALONE else team()
        finite, mean, m2, low, high = native.spread(tensor.data_ptr(), count, kind is torch.float64, 0, start, threads)
        if not finite or not -_LARGEST < low <= high < _LARGEST:
            return True
        known = self._ruled_out.get(count, -1.0)
        if -known <= low and high <= known:
            return False
        if self._is_ruled_out(count, max(-low, high)):
            return False
        extent = of_spread(count, mean, m2, low, high)
        return all(possible(extent) for possible in self._possible)

    def _is_ruled_out(self, count: int, most: float) -> bool:
        """Whether no tensor of so many elements of at most this magnitude fulfils the condition; remembers it."""
        if most <= self._ruled_out.get(count, -1.0):
            return True
        if self._holds_of_magnitude(count, most):
            return False
        for _ in range(_DOUBLINGS):
            if 2 * most >= _LARGEST or not most or self._holds_of_magnitude(count, 2 * most):
                break
            most *= 2
        if len(self._ruled_out) >= _MOST_COUNTS:
            self._ruled_out.clear()
        self._ruled_out[count] = most
        return True

    def _holds_of_magnitude(self, count: int, most: float) -> bool:
        extent = of_magnitude(count, most)
        return all(possible(extent) for possible in self._possible)


def bounds_of(conjuncts: Sequence[ast.expr]) -> Bounds | None:
    """Returns the bounds of a condition whose parts all must hold; None where nothing is told of any of them."""
    parts = [possible for part in conjuncts if (possible := _possible(part)) is not None]
    return Bounds(parts) if parts else None


def _possible(node: ast.expr) -> _Possible | None:
    """Whether a condition may hold of an extent; None where that is always so, or not known."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return _all([_possible(value) for value in values])
        case ast.BoolOp(values=values):
            parts = [_possible(value) for value in values]
            known = [part for part in parts if part is not None]
            return (lambda extent: any(part(extent) for part in known)) if len(known) == len(parts) else None
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [_range(side) for side in (left, *comparators)]
            return _all([_comparison(*pair) for pair in zip(ops, sides, sides[1:], strict=False)])
        case ast.Call(func=ast.Name(id="isnan"), args=[argument]):
            inner = _range(argument)
            # A range that ends on both sides is one of numbers.
            return None if inner is None else lambda extent: inner(extent) == UNKNOWN
    return None


def _all(parts: Sequence[_Possible | None]) -> _Possible | None:
    known = [part for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
    return lambda extent: all(part(extent) for part in known)


def _comparison(comparison: ast.cmpop, left: _Range | None, right: _Range | None) -> _Possible | None:
    if left is None or right is None:
        return None
    test = _MAY_HOLD[type(comparison)]
    return lambda extent: test(left(extent), right(extent))


def _range(node: ast.expr) -> _Range | None:
    """The range of a number; None where nothing is known of it."""
    match node:
        case ast.Constant(value=int() | float() as value):
            number = float(value)
            return lambda extent: (number, number)
        case ast.Name(id=name):
            return RANGES.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (inner := _range(operand)) is not None:
            return lambda extent: _negated(inner(extent))
        case ast.Call(func=ast.Name(id="abs"), args=[argument]) if (signed := _range(argument)) is not None:
            return lambda extent: _absolute(signed(extent))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=ast.Constant(value=int() | float() as value)):
            scaled, factor = _range(left), float(value)
            if scaled is None or not 1e-100 < abs(factor) < 1e100:
                return None
            if isinstance(op, ast.Mult):
                return lambda extent: _ordered(*(end * factor for end in scaled(extent)))
            return lambda extent: _ordered(*(end / factor for end in scaled(extent)))
    return None


def _negated(interval: Interval) -> Interval:
    return -interval[1], -interval[0]


def _absolute(interval: Interval) -> Interval:
    low, high = interval
    if low >= 0:
        return interval
    return (-high, -low) if high <= 0 else (0.0, max(-low, high))


def _ordered(one: float, other: float) -> Interval:
    return (one, other) if one <= other else (other, one)
