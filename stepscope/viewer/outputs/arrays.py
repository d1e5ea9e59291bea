"""What is said of an array in numbers: its statistics and its distribution. Needs no torch."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from debuggers.host_arrays.narrow_floats import NARROW_FLOATS

BINS = 32
"""The bars of a small histogram."""
_CHUNK = 1 << 20
_NARROW = frozenset(NARROW_FLOATS.values())

Array = npt.NDArray[Any]


def is_numeric(value: Any) -> bool:
    """Whether ``value`` is an array of real numbers: bool, integers, or floats of any width, those of ml_dtypes too."""
    return isinstance(value, np.ndarray) and (value.dtype.kind in "biuf" or value.dtype in _NARROW)


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
    found: dict[str, Any] = {"elements": int(array.size)}
    nan = positive = negative = zero = count = 0
    total, low, high = 0.0, np.inf, -np.inf
    for part in _parts(array):
        finite = part[np.isfinite(part)]
        nan += int(np.isnan(part).sum())
        positive += int((part == np.inf).sum())
        negative += int((part == -np.inf).sum())
        zero += int((finite == 0).sum())
        count += finite.size
        if finite.size:
            with np.errstate(over="ignore"):
                total += float(finite.sum())
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    found |= {"nan": nan, "pinf": positive, "ninf": negative, "zero": zero}
    if not count:
        return found | dict.fromkeys(("min", "max", "mean", "std", "histogram"))
    mean = total / count
    squares, bins = _second_pass(array, mean, low, high)
    histogram = None if bins is None else {"low": low, "high": high, "counts": bins.tolist()}
    found |= {"min": low, "max": high, "mean": number(mean), "std": number(np.sqrt(squares / count))}
    return found | {"histogram": histogram}


def _second_pass(array: Array, mean: float, low: float, high: float) -> tuple[float, npt.NDArray[np.int64] | None]:
    bins = np.zeros(BINS, np.int64) if low < high and np.isfinite(high - low) else None
    squares = 0.0
    for part in _parts(array):
        finite = part[np.isfinite(part)]
        with np.errstate(over="ignore", invalid="ignore"):
            squares += float(np.square(finite - mean).sum())
        if bins is not None:
            places = ((finite - low) / (high - low) * BINS).astype(np.int64).clip(0, BINS - 1)
            bins += np.bincount(places, minlength=BINS)
    return squares, bins


def _parts(array: Array) -> Any:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        yield as_floats(flat[start : start + _CHUNK])
