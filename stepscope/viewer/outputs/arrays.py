"""What is said of an array in numbers: its statistics and its distribution. Needs no torch."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.narrow_floats import is_narrow_float

BINS = 32
"""The bars of a small histogram."""
_CHUNK = 1 << 17

Array = npt.NDArray[Any]


def is_numeric(value: Any) -> bool:
    """Whether ``value`` is an array of real numbers: bool, integers, or floats of any width, those of ml_dtypes too."""
    return isinstance(value, np.ndarray) and (value.dtype.kind in "biuf" or is_narrow_float(value.dtype))


def as_floats(array: Array) -> npt.NDArray[np.float64]:
    """Returns the values as float64; integers beyond 2**53 are rounded."""
    return np.asarray(array).astype(np.float64)


def number(value: Any) -> float | int | bool | str:
    """Returns a number as JSON can hold it: NaN and infinities as ``NaN``, ``Infinity`` and ``-Infinity``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    found = float(value)
    if math.isfinite(found):
        return found
    return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"


def statistics(array: Array) -> dict[str, Any]:
    """Returns ``elements``, ``nan``, ``pinf``, ``ninf`` and ``zero`` as counts, and the numbers of the finite values.

    ``min``, ``max``, ``mean`` and ``std`` (of the population) are over the finite values, in float64; None where there
    are none. ``histogram`` has ``low``, ``high`` and the counts of ``BINS`` equal bins from the one to the other,
    both ends included; None with no finite value, one value throughout, or a range beyond float64.
    """
    nan = positive = negative = zero = count = 0
    total, low, high = 0.0, np.inf, -np.inf
    for part, finite in _parts(array):
        if finite.size < part.size:
            nan += int(np.isnan(part).sum())
            positive += int((part == np.inf).sum())
            negative += int((part == -np.inf).sum())
        if finite.size:
            zero += finite.size - int(np.count_nonzero(finite))
            with np.errstate(over="ignore"):
                total += float(finite.sum())
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        count += finite.size
    found: dict[str, Any] = {"elements": int(array.size), "nan": nan, "pinf": positive, "ninf": negative, "zero": zero}
    if not count:
        return found | dict.fromkeys(("min", "max", "mean", "std", "histogram"))
    mean = total / count
    squares, bins = _second_pass(array, mean, low, high)
    histogram = None if bins is None else {"low": low, "high": high, "counts": bins.tolist()}
    found |= {"min": low, "max": high, "mean": number(mean), "std": number(np.sqrt(squares / count))}
    return found | {"histogram": histogram}


def finite_range(array: Array) -> tuple[float, float]:
    """Returns the smallest and the largest finite value; (0, 1) without one."""
    low, high = np.inf, -np.inf
    for _, finite in _parts(array):
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return (low, high) if low <= high else (0.0, 1.0)


def _second_pass(array: Array, mean: float, low: float, high: float) -> tuple[float, npt.NDArray[np.int64] | None]:
    bins = np.zeros(BINS, np.int64) if low < high and np.isfinite(high - low) else None
    squares = 0.0
    for _, finite in _parts(array):
        with np.errstate(over="ignore", invalid="ignore"):
            squares += float(np.square(finite - mean).sum())
        if bins is not None:
            places = ((finite - low) / (high - low) * BINS).astype(np.int64).clip(0, BINS - 1)
            bins += np.bincount(places, minlength=BINS)
    return squares, bins


def _parts(array: Array) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Pieces of an array as float64, each with its finite values."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = as_floats(flat[start : start + _CHUNK])
        is_finite = np.isfinite(part)
        yield part, part if is_finite.all() else part[is_finite]
