"""Counts outliers by Tukey's fences from a histogram: bins have a width, so that fences and counts are bounds."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import Histogram

FENCE = 1.5
Bounds = tuple[float, float]
Floats = npt.NDArray[np.float64]
_ROUNDING = 2.0**-20
_NOTHING = (math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class TensorOutliers:
    """Finite elements below ``q1 - 1.5 * (q3 - q1)`` or above ``q3 + 1.5 * (q3 - q1)``.

    The rule is that of Tukey, "Exploratory data analysis", 1977. q1 and q3 are the first and third quartile, by any
    of the usual definitions: from the lower to the higher of the two elements around a quarter of the ranks.

    Attributes:
        lower_fence: Bounds on the lower fence, ``(least, greatest)``; NaN when no element is finite.
        upper_fence: Bounds on the upper one.
        below: Bounds on the number of elements below the lower fence, ``(at least, at most)``.
        above: Bounds on the number above the upper one.
        finite_count: Finite elements.
    """

    lower_fence: Bounds
    upper_fence: Bounds
    below: tuple[int, int]
    above: tuple[int, int]
    finite_count: int

    @property
    def fraction(self) -> Bounds:
        """Bounds on the share of outliers among finite elements; NaN when there is none."""
        if not self.finite_count:
            return _NOTHING
        least, most = (low + high for low, high in zip(self.below, self.above, strict=True))
        return least / self.finite_count, most / self.finite_count


def tukey_outliers(histogram: Histogram) -> TensorOutliers:
    """Returns the outliers among the elements that a histogram holds."""
    edges, counts = histogram.edges()
    if not counts.size:
        return TensorOutliers(_NOTHING, _NOTHING, (0, 0), (0, 0), 0)
    # float64 elements were rounded to float32 before they were counted, perhaps across an edge.
    slack = np.abs(edges) * _ROUNDING
    lefts = np.maximum(edges - slack, histogram.min)[:-1]
    rights = np.minimum(edges + slack, histogram.max)[1:]
    cumulative = np.cumsum(counts)
    first, third = (_quartile(lefts, rights, cumulative, share) for share in (0.25, 0.75))
    lower = _lower_fence(first[0], third[1]), _lower_fence(first[1], third[0])
    upper = -_lower_fence(-third[0], -first[1]), -_lower_fence(-third[1], -first[0])
    surely = counts[rights < lower[0]].sum(), counts[lefts > upper[1]].sum()
    possibly = counts[lefts < lower[1]].sum(), counts[rights > upper[0]].sum()
    # Whatever the bins leave open, no more than a quarter lies beyond a quartile.
    quarter = math.ceil((histogram.finite_count - 1) / 4)
    below, above = ((int(least), min(int(most), quarter)) for least, most in zip(surely, possibly, strict=True))
    return TensorOutliers(lower, upper, below, above, histogram.finite_count)


def _quartile(lefts: Floats, rights: Floats, cumulative: npt.NDArray[np.int64], share: float) -> Bounds:
    rank = share * (int(cumulative[-1]) - 1)
    low, high = np.searchsorted(cumulative, [math.floor(rank), math.ceil(rank)], side="right")
    return float(lefts[low]), float(rights[high])


def _lower_fence(first: float, third: float) -> float:
    return first - FENCE * max(0.0, third - first)
