"""What is known of a tensor without a whole measurement, as a range of each statistic that conditions may use."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Interval: TypeAlias = tuple[float, float]
UNKNOWN: Final[Interval] = (-math.inf, math.inf)

_ROUNDED = 1 + 1e-9
"""What the statistics of a measurement may exceed their limits by."""
_OF_STD, _OF_MOST = 1e-4, 1e-7
"""How far a mean and a deviation that were found quickly may be off, generously: of the deviation, and of the largest
magnitude. ``debuggers.measurement.kernels.spread`` says 1e-6 of the deviation."""


@dataclass(slots=True)  # frozen ones take long to make
class Extent:
    """Ranges of a number of finite elements, one or more.

    Attributes:
        count: How many elements there are.
        min, max, largest: Ranges of the smallest and largest element, and of the largest magnitude.
        mean, std, rms: Of mean, population standard deviation and root mean square.
    """

    count: int
    min: Interval
    max: Interval
    largest: Interval
    mean: Interval
    std: Interval
    rms: Interval

    @property
    def zero(self) -> Interval:
        """Of the number of zeros: (Σx)² is at most Σx² times the number of other elements."""
        if self.min[0] > 0 or self.max[1] < 0:
            return 0.0, 0.0
        least = max(self.mean[0], -self.mean[1], 0.0)
        most = self.rms[1]
        others = (least / most) ** 2 / _ROUNDED if most else 0.0
        return 0.0, float(self.count) if others < _OF_STD else self.count * min(1.0, 1.0 - others + _OF_STD)


def of_magnitude(count: int, most: float) -> Extent:
    """Returns what holds of elements none of which is larger than ``most``; a smaller one gives narrower ranges."""
    signed, unsigned = (-most * _ROUNDED, most * _ROUNDED), (0.0, most * _ROUNDED)
    return Extent(count, signed, signed, (0.0, most), signed, unsigned, unsigned)


def of_spread(count: int, mean: float, m2: float, low: float, high: float) -> Extent:
    """Returns what the compiled ``spread`` has found."""
    most, std = max(-low, high), math.sqrt(max(m2, 0.0) / count)
    slack = _OF_STD * std + _OF_MOST * most
    rms = math.hypot(mean, std)
    return Extent(
        count,
        (low, low),
        (high, high),
        (most, most),
        (mean - slack, mean + slack),
        (max(0.0, std - slack), std + slack),
        (max(0.0, rms - 2 * slack), rms + 2 * slack),
    )


def _none(extent: Extent) -> Interval:
    return 0.0, 0.0


def _some(extent: Extent) -> Interval:
    return 0.0, float(extent.count)


def _count(extent: Extent) -> Interval:
    return float(extent.count), float(extent.count)


def _negative(extent: Extent) -> Interval:
    return _none(extent) if extent.min[0] >= 0 else _some(extent)


def _positive(extent: Extent) -> Interval:
    return _none(extent) if extent.max[1] <= 0 else _some(extent)


def _zero_fraction(extent: Extent) -> Interval:
    return 0.0, min(1.0, extent.zero[1] / extent.count)


def _l1_norm(extent: Extent) -> Interval:
    least = max(extent.mean[0], -extent.mean[1], 0.0)
    return extent.count * least / _ROUNDED, extent.count * extent.rms[1] * _ROUNDED


def _l2_norm(extent: Extent) -> Interval:
    root = math.sqrt(extent.count)
    return root * extent.rms[0] / _ROUNDED, root * extent.rms[1] * _ROUNDED


RANGES: Final[Mapping[str, Callable[[Extent], Interval]]] = {
    "count": _count,
    "nan": _none,
    "pos_inf": _none,
    "neg_inf": _none,
    "non_finite": _none,
    "non_finite_fraction": _none,
    "zero": lambda extent: extent.zero,
    "negative": _negative,
    "positive": _positive,
    "zero_fraction": _zero_fraction,
    "min": lambda extent: extent.min,
    "max": lambda extent: extent.max,
    "abs_max": lambda extent: extent.largest,
    "mean": lambda extent: extent.mean,
    "std": lambda extent: extent.std,
    "rms": lambda extent: extent.rms,
    "l1_norm": _l1_norm,
    "l2_norm": _l2_norm,
}
"""The range of each statistic."""
