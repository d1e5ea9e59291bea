"""Tells a series of memory sizes that grows without end from one that has grown."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

CAPACITY = 256
FEWEST = 128
SIGNIFICANCE = 0.001


class Trend(NamedTuple):
    """Growth from the first to the last of these steps, in the unit of the series; the larger of the two p-values."""

    first_step: int
    last_step: int
    growth: float
    p_value: float


class MemoryTrend:
    """At most 256 samples, spread evenly over all steps: when they are full, every second one goes.

    The test looks at the later half of them, so that what a run allocates as it starts does not count, and a slow leak
    shows in a long run. It asks for a rising trend in both quarters, each by Mann and Kendall's test with ties
    (one-sided, p < 0.001; Mann 1945, Kendall 1975), so that one jump is no leak, and for a least growth by Sen's slope
    (Sen 1968) over the half. Samples that are not independent of each other make the test find a trend sooner than p
    says; the least growth guards against that.
    """

    def __init__(self, least_growth: float) -> None:
        """Takes the least growth that counts, in the unit of the series."""
        self._least_growth = least_growth
        self._stride = 1
        self._calls = 0
        self._steps: list[int] = []
        self._values: list[float] = []

    def add(self, step: int, value: float) -> bool:
        """Takes a value, and returns whether it is one of the samples."""
        self._calls += 1
        if (self._calls - 1) % self._stride:
            return False
        self._steps.append(step)
        self._values.append(value)
        if len(self._values) >= CAPACITY:
            self._steps, self._values = self._steps[::2], self._values[::2]
            self._stride *= 2
        return True

    def find(self) -> Trend | None:
        """Returns the trend if there is one; with fewer than 128 samples there is none."""
        if len(self._values) < FEWEST:
            return None
        half = len(self._values) // 2
        values = np.array(self._values[half:])
        growth = sen_slope(values) * (len(values) - 1)
        if growth < self._least_growth:
            return None
        middle = len(values) // 2
        p_value = max(mann_kendall(values[:middle]), mann_kendall(values[middle:]))
        return Trend(self._steps[half], self._steps[-1], growth, p_value) if p_value < SIGNIFICANCE else None

    def since(self, step: int, *, at_least: int = 1) -> npt.NDArray[np.float64]:
        """Returns the samples from a step on, in order, or the last ones if those are fewer than ``at_least``."""
        count = sum(one >= step for one in self._steps)
        return np.array(self._values[-max(count, at_least) :])


def mann_kendall(values: npt.NDArray[np.float64]) -> float:
    """Returns the one-sided p-value of a rising trend, by the normal approximation with ties.

    ``Var(S) = (n(n-1)(2n+5) - sum t(t-1)(2t+5)) / 18`` over the sizes t of the ties, ``z = (S-1)/sqrt(Var(S))``.
    """
    count = len(values)
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(count, 1)].sum())
    ties = np.unique(values, return_counts=True)[1].astype(float)
    variance = (count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if score <= 0 or variance <= 0:
        return 1.0
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * variance))


def sen_slope(values: npt.NDArray[np.float64]) -> float:
    """Returns the median of the slopes between all pairs, in units a sample."""
    first, second = np.triu_indices(len(values), 1)
    return float(np.median((values[second] - values[first]) / (second - first)))
