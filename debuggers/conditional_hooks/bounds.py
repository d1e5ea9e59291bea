"""Tells that a condition on values cannot hold from the largest magnitude alone, without a whole measurement.

Most conditions wait for something rare, such as ``abs_max > 1e4`` or ``nan > 0``: where all elements are finite and
small, they need not be asked.
"""

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tracker_adapters.native.extension import kernels

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch
from debuggers.torch_internals.dispatch import without_overrides

_LARGEST = 1e150
"""Beyond it the squares of a measurement may be infinite."""
_ROUNDED = 1 + 1e-9
"""What a measurement may exceed a limit by."""
_FEW = 1 << 16
_COMPILED = frozenset({torch.float32, torch.float64})
_Range = Callable[[float, int], tuple[float, float]]

_NONE: _Range = lambda most, count: (0.0, 0.0)  # noqa: E731
_SOME: _Range = lambda most, count: (0.0, float(count))  # noqa: E731
_SIGNED: _Range = lambda most, count: (-most * _ROUNDED, most * _ROUNDED)  # noqa: E731
_UNSIGNED: _Range = lambda most, count: (0.0, most * _ROUNDED)  # noqa: E731
RANGES: Final[dict[str, _Range]] = {
    "count": lambda most, count: (float(count), float(count)),
    "nan": _NONE,
    "pos_inf": _NONE,
    "neg_inf": _NONE,
    "non_finite": _NONE,
    "non_finite_fraction": _NONE,
    "zero": _SOME,
    "negative": _SOME,
    "positive": _SOME,
    "zero_fraction": lambda most, count: (0.0, 1.0),
    "min": _SIGNED,
    "max": _SIGNED,
    "mean": _SIGNED,
    "abs_max": lambda most, count: (most, most),
    "std": _UNSIGNED,
    "rms": _UNSIGNED,
    "l1_norm": lambda most, count: (0.0, count * most * _ROUNDED),
    "l2_norm": lambda most, count: (0.0, math.sqrt(count) * most * _ROUNDED),
}
"""The range of each statistic of finite elements, by their largest magnitude and their number."""
_MAY_HOLD: Final[dict[type[ast.cmpop], Callable[[float, float, float], bool]]] = {
    ast.Lt: lambda low, high, limit: low < limit,
    ast.LtE: lambda low, high, limit: low <= limit,
    ast.Gt: lambda low, high, limit: high > limit,
    ast.GtE: lambda low, high, limit: high >= limit,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of one statistic with a number."""

    statistic: str
    comparison: type[ast.cmpop]
    limit: float
    _range: _Range = field(init=False, repr=False, compare=False)
    _test: Callable[[float, float, float], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up once: a bound is asked at each call of a layer.
        object.__setattr__(self, "_range", RANGES[self.statistic])
        object.__setattr__(self, "_test", _MAY_HOLD[self.comparison])

    def may_hold(self, most: float, count: int) -> bool:
        """Whether it may hold of ``count`` finite elements whose largest magnitude is ``most``."""
        low, high = self._range(most, count)
        return self._test(low, high, self.limit)


def bound_of(node: ast.expr) -> Bound | None:
    """Returns a condition as a bound, if it is a comparison such as ``l2_norm > 10`` that some tensor cannot reach."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name), ops=[comparison], comparators=[ast.Constant(value=int() | float() as n)]
        ):
            if name not in RANGES or type(comparison) not in _MAY_HOLD or isinstance(n, bool):
                return None
            bound = Bound(name, type(comparison), float(n))
            return None if bound.may_hold(0.0, 1) else bound
    return None


def may_hold(bounds: Iterable[Bound], tensor: torch.Tensor) -> bool:
    """Whether all bounds may hold of a tensor; True wherever that is not known, as on a device."""
    if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
        return True
    count, kind = tensor.numel(), tensor.dtype
    if tensor.is_nested or not kind.is_floating_point or not count or is_freed(tensor):
        return True
    native = kernels() if kind in _COMPILED and 1 < count <= _FEW and tensor.is_contiguous() else None
    if native is not None:
        # In this thread alone: a tenth of the time of a torch operation.
        finite, _, _, low, high = native.spread(tensor.data_ptr(), count, kind is torch.float64, 0, 0, 0)
        most = max(-low, high) if finite else math.inf
    else:
        with without_overrides():
            most = torch.linalg.vector_norm(tensor, math.inf).item()
    if not most < _LARGEST:  # also NaN
        return True
    return all(bound.may_hold(most, count) for bound in bounds)
