"""The element-wise difference of two arrays. Needs no torch."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementDifference:
    """How the elements of two tensors of one shape differ, computed in float64.

    Only pairs whose two elements are finite count. Integers beyond 2**53 are rounded. Of values beyond about 1e154
    the squares overflow: ``relative`` and ``cosine`` are then infinite or NaN.

    Attributes:
        compared: Pairs that count.
        left_out: Pairs with a NaN or infinite element.
        max_abs: Largest ``|b - a|``; NaN when nothing was compared. ``mean_abs`` is their mean.
        relative: ``||b - a|| / ||a||`` (Euclidean norms): infinite if only ``a`` is zero, NaN if both are.
        cosine: ``<a, b> / (||a|| ||b||)``, NaN if one is zero; of complex tensors the real part.
    """

    compared: int
    left_out: int
    max_abs: float
    mean_abs: float
    relative: float
    cosine: float


def element_difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> ElementDifference:
    """Compares arrays of one shape element by element, a piece at a time."""
    kind: npt.DTypeLike = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    first, second = a.reshape(-1), b.reshape(-1)
    compared, largest = 0, -math.inf
    sums = np.zeros(5)  # |d|, |d|^2, |a|^2, |b|^2, <a, b>
    for start in range(0, first.size, _CHUNK):
        x, y = (part[start : start + _CHUNK].astype(kind) for part in (first, second))
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = x[finite], y[finite]
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.abs(y - x)
            sums += [distance.sum(), *(np.vdot(v, w).real for v, w in ((distance, distance), (x, x), (y, y), (x, y)))]
        compared += x.size
        largest = max(largest, float(distance.max(initial=-math.inf)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        total, *squares, product = sums
        difference, length_a, length_b = np.sqrt(squares)
        return ElementDifference(
            compared=compared,
            left_out=first.size - compared,
            max_abs=largest if compared else math.nan,
            mean_abs=float(total / np.float64(compared)),
            relative=float(difference / length_a),
            cosine=float(product / length_a / length_b),
        )
