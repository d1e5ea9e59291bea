"""The stability score: one number from 0 (broken) to 1 (calm) a step."""

import math
from collections import deque

from stability.results.step import NaNStats

WINDOW = 128
SPIKE_DEVIATIONS = 6.0
"""A norm above mean + 6 standard deviations of the last 128 is a spike (the spike test of OLMo)."""
FEWEST_NORMS = 10
_MOST_BOUNDS = 1.25


class StabilityScore:
    """Scores a step by the steps before it.

    ``score = share · min(1, bound / norm)`` for a finite step, 0 for one with a non-finite loss or gradient, where
    ``share`` is the share of finite steps among the last 128, this one included, and ``bound`` is the mean plus six
    standard deviations of the finite gradient norms (before clipping) among the 128 before this one. With fewer
    than 10 such norms there is no bound and the second factor is 1. A norm enters the 128 as 1.25 times its bound at
    most, so that a spike does not hide the next ones, and a lasting rise is followed within some dozen steps. A step
    that a GradScaler skips for its own overflow leaves the score as it was.
    """

    def __init__(self) -> None:
        self._finite: deque[bool] = deque(maxlen=WINDOW)
        self._norms: deque[float] = deque(maxlen=WINDOW)
        self._last = 1.0

    def rate(self, stats: NaNStats, norm: float) -> float:
        """Takes one step and returns its score; ``norm`` is the total gradient norm before clipping."""
        if stats["scaler_step"]:
            return self._last
        return self.update(finite=stats["loss_finite"] and stats["gradients_finite"], norm=norm)

    def update(self, *, finite: bool, norm: float) -> float:
        """Takes one step and returns its score.

        Args:
            finite: Whether the loss and all gradients are finite.
            norm: The total gradient norm before clipping; a non-finite one stays out of the window.
        """
        self._finite.append(finite)
        share = sum(self._finite) / len(self._finite)
        bound = self._bound()
        calm = min(1.0, bound / norm) if norm > 0.0 else 1.0
        self._last = share * calm if finite else 0.0
        if math.isfinite(norm):
            self._norms.append(min(norm, _MOST_BOUNDS * bound) if bound > 0.0 else norm)
        return self._last

    def _bound(self) -> float:
        count = len(self._norms)
        if count < FEWEST_NORMS:
            return math.inf
        mean = sum(self._norms) / count
        deviation = math.sqrt(sum((value - mean) * (value - mean) for value in self._norms) / count)
        return mean + SPIKE_DEVIATIONS * deviation
