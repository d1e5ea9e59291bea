"""The names that a condition may use, and what they stand for."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from debuggers.measurement.tensor_summary import TensorSummary


def _non_finite(summary: TensorSummary) -> int:
    return summary.count - summary.finite_count


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


STATISTICS: Final[Mapping[str, Callable[[TensorSummary], float]]] = {
    "count": lambda summary: summary.count,
    "nan": lambda summary: summary.nan,
    "pos_inf": lambda summary: summary.pos_inf,
    "neg_inf": lambda summary: summary.neg_inf,
    "non_finite": _non_finite,
    "zero": lambda summary: summary.zero,
    "negative": lambda summary: summary.negative,
    "positive": lambda summary: summary.positive,
    "min": lambda summary: summary.min,
    "max": lambda summary: summary.max,
    "abs_max": lambda summary: max(abs(summary.min), abs(summary.max)),
    "mean": lambda summary: summary.mean,
    "std": lambda summary: summary.std,
    "rms": lambda summary: summary.l2 / math.sqrt(summary.finite_count) if summary.finite_count else math.nan,
    "l1_norm": lambda summary: summary.l1,
    "l2_norm": lambda summary: summary.l2,
    "zero_fraction": lambda summary: _share(summary.zero, summary.count),
    "non_finite_fraction": lambda summary: _share(_non_finite(summary), summary.count),
}
"""Of the tensor: counts of its elements and of those that are NaN, infinite, zero, below and above zero; extremes,
mean, population standard deviation, root mean square and norms of the finite elements, NaN where there is none (norms:
0); shares of all elements. See ``TensorSummary``."""

COUNTERS: Final = ("step", "executions")
"""The number of the step, and how often the hook has acted so far. They are known without measuring the tensor."""
