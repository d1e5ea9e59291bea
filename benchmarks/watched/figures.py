"""What the times of many pairs say: estimates with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, by the bootstrap over the pairs (Efron, 1979)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Figures:
    """A side's figures.

    Attributes:
        plain_ms: Median of the plain steps.
        watched_ms: Median of the watched steps.
        median: Median over the pairs of ``(watched - plain) / plain``.
        mean: Sum of the watched steps by the sum of the plain ones, less one.
        added_ms: What a watched step takes longer: the median over the pairs, or their mean for a side that
            leaves steps out.
        plain_slowed: By what share the plain steps are slower than before and after: what the side does beside the
            loop, in threads and other processes, slows both copies and cancels out of the overhead.
    """

    plain_ms: float
    watched_ms: float
    median: Estimate
    mean: Estimate
    added_ms: Estimate
    plain_slowed: float


def figures(
    plain_ms: Sequence[float], watched_ms: Sequence[float], quiet_ms: Sequence[float], *, sampling: bool = False
) -> Figures:
    """Returns the figures of one side.

    Args:
        plain_ms: The plain steps' times, pair by pair.
        watched_ms: The watched steps' times, pair by pair.
        quiet_ms: Times of steps before the watching began and after it ended.
        sampling: Whether the side watches only some of the steps.
    """
    plain, watched = np.asarray(plain_ms), np.asarray(watched_ms)
    # The same pairs are drawn for both, so that what slowed down a pair stays with it.
    drawn = np.random.default_rng(0).integers(len(plain), size=(RESAMPLES, len(plain)))
    added, shares = watched - plain, (watched - plain) / plain
    middle = np.mean if sampling else np.median
    return Figures(
        plain_ms=float(np.median(plain)),
        watched_ms=float(np.median(watched)),
        median=_estimate(np.median(shares), np.median(shares[drawn], axis=1)),
        mean=_estimate(watched.sum() / plain.sum() - 1, watched[drawn].sum(axis=1) / plain[drawn].sum(axis=1) - 1),
        added_ms=_estimate(middle(added), middle(added[drawn], axis=1)),
        plain_slowed=float(np.median(plain) / np.median(quiet_ms) - 1),
    )


def _estimate(value: Any, resampled: npt.NDArray[np.float64]) -> Estimate:
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Estimate(float(value), float(low), float(high))
