"""A loss that does not fall, and one that rises."""

import math

from debuggers.detectors.running_window import RunningWindow
from debuggers.detectors.signal_detector import SignalDetector

FIRST = 20
WINDOW = 50
MIN_LOSSES = 200
LEAST_FALL = 0.001
MOST_RISE = 0.05
STANDARD_ERRORS = 2
STANDARD_ERRORS_OF_LOWEST = 6


class LossNotDecreasing(SignalDetector):
    """The mean of the last 50 losses is not below that of the first 20 by 0.1 % of it, nor by two standard errors.

    Compared with the start, not with the last steps: a loss that has reached its floor is no fault. Standard errors
    take the place of a fixed period, because single batches differ by more than a step improves; so do 200 losses that
    the rule waits for. The other number in
    use, 5 % a period (TheDeepChecker), depends on the length of the period. Only told: the losses of adversarial and
    reinforcement learning need not fall, and a training that goes on from a checkpoint may begin at its floor.
    """

    kind = "loss_not_decreasing"
    level = "info"
    signals = frozenset({"loss"})
    rule = (
        "mean of the last 50 losses > mean of the first 20 - max(0.1 % of it (LossNotDecreasing of SageMaker "
        "Debugger), 2 standard errors), from 200 losses on"
    )
    evidence = "the mean {value:.4g} of the last 50 losses is not below {threshold:.4g}"

    def __init__(self) -> None:
        super().__init__()
        self._first, self._last = RunningWindow(FIRST), RunningWindow(WINDOW)
        self._start = self._variance = 0.0
        self._seen = 0

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        self._seen += 1
        if not self._first.is_full:
            self._first.push(value)
            if self._first.is_full:
                self._start, self._variance = self._first.mean, self._first.std**2 / FIRST
            return None
        window = self._last
        window.push(value)
        if self._seen < MIN_LOSSES:
            return None
        mean = window.mean
        if mean <= self._start - LEAST_FALL * abs(self._start):  # may have fallen: is it more than noise?
            error = math.sqrt(self._variance + window.std**2 / WINDOW)
            limit = self._start - STANDARD_ERRORS * error
            return (mean, limit) if mean > limit else None
        return mean, self._start - LEAST_FALL * abs(self._start)


class LossIncreasing(SignalDetector):
    """The mean of the last 50 losses is above the lowest such mean so far by 5 % of it, and by 6 standard errors.

    Means are taken of periods of 50 steps, one after the other. Only told, for the reasons of ``LossNotDecreasing``.
    """

    kind = "loss_increasing"
    level = "info"
    signals = frozenset({"loss"})
    rule = (
        "mean of 50 losses > lowest such mean + max(5 % of it (increase limit of LossNotDecreasing of SageMaker "
        "Debugger), 6 standard errors)"
    )
    evidence = "the mean {value:.4g} of 50 losses is above {threshold:.4g}"

    def __init__(self) -> None:
        super().__init__()
        self._window = RunningWindow(WINDOW)
        self._seen = 0
        self._lowest, self._variance = math.inf, 0.0

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        self._window.push(value)
        self._seen += 1
        if self._seen % WINDOW:
            return None
        mean, variance = self._window.mean, self._window.std**2 / WINDOW
        if mean < self._lowest:
            self._lowest, self._variance = mean, variance
            return None
        error = math.sqrt(self._variance + variance)
        limit = self._lowest + max(MOST_RISE * abs(self._lowest), STANDARD_ERRORS_OF_LOWEST * error)
        return (mean, limit) if mean > limit else None
