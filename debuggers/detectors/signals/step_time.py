"""Steps that take long, and steps that wait for data."""

import math

from debuggers.detectors.running_window import RunningWindow
from debuggers.detectors.signal_detector import SignalDetector

WINDOW = 128
IGNORED = 10
MIN_POINTS = 20
SIGMAS = 3
LEAST_FACTOR = 2.0
STALL_MS = 1800e3
HALF = 0.5
SHARES = 20


class SlowStep(SignalDetector):
    """A step takes longer than mean + 3 σ of the last 128, and twice their mean; the first 10 are ignored.

    The factor of two is stepscope's own: times of steps have a long tail, in which 3 σ is nothing. Only told.
    """

    kind = "slow_step"
    level = "info"
    signals = frozenset({"step_ms"})
    rule = "step time > mean + 3 σ of 128, the first 10 ignored (StepOutlier of SageMaker Debugger), and > 2 mean"
    evidence = "a step took {value:.4g} ms, more than {threshold:.4g} ms"

    def __init__(self) -> None:
        super().__init__()
        self._window = RunningWindow(WINDOW)
        self._seen = 0

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        self._seen += 1
        if self._seen <= IGNORED or not math.isfinite(value):
            return None
        window, limit = self._window, math.inf
        if len(window) >= MIN_POINTS:
            mean = window.mean
            if value > LEAST_FACTOR * mean:
                limit = max(LEAST_FACTOR * mean, mean + SIGMAS * window.std)
        window.push(value)
        return (value, limit) if value > limit else None


class StalledTraining(SignalDetector):
    """No step for 1,800 s: told with the step that ended it. Only told, because long validations look the same."""

    kind = "stalled_training"
    level = "info"
    signals = frozenset({"step_ms"})
    rule = "no step for 1,800 s (StalledTrainingRule of SageMaker Debugger)"
    evidence = "a step took {value:.4g} ms, more than {threshold:.4g} ms"

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        return (value, STALL_MS) if value > STALL_MS else None


class DataLoadingBound(SignalDetector):
    """Waiting for data takes above half of the time, in the mean of the last 20 sampled steps; the first is ignored.

    Only told: it costs time, and no quality.
    """

    kind = "data_loading_bound"
    level = "info"
    signals = frozenset({"data_share"})
    rule = "mean share of the step before its forward pass > 0.5, over 20 sampled steps (stepscope's choice)"
    evidence = "{value:.0%} of the time of a step goes by before its forward pass, more than {threshold:.0%}"

    def __init__(self) -> None:
        super().__init__()
        self._window = RunningWindow(SHARES)
        self._is_first = True

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if self._is_first or not math.isfinite(value):
            self._is_first = False
            return None
        self._window.push(value)
        if not self._window.is_full:
            return None
        mean = self._window.mean
        return (mean, HALF) if mean > HALF else None
