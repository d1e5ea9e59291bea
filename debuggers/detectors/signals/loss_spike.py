"""A loss far above those of the last steps."""

import math

from debuggers.detectors.running_window import RunningWindow
from debuggers.detectors.signal_detector import SignalDetector

WINDOW = 128
MIN_POINTS = 64
SIGMAS = 6
LEAST_RISE = 0.1


class LossSpike(SignalDetector):
    """The loss exceeds mean + 6 σ of its last 128 values, once there are 64, and the mean by a tenth of its size.

    The tenth is stepscope's own: where the loss hardly varies, 6 σ is nothing. Only told, because single batches of a
    sound training may have a large loss, most of all small ones. The other rule in use, a distance of twice the running
    mean of 10 losses (Lightning's), fires at each hard sample once the loss is near zero. A loss that is not finite
    is the business of ``NonFiniteLoss`` and does not enter the window.
    """

    kind = "loss_spike"
    level = "info"
    signals = frozenset({"loss"})
    rule = "loss > mean + 6 σ of the last 128 (the spike test of OLMo), and > mean + 0.1 |mean|, from 64 losses on"
    evidence = "the loss {value:.4g} is above {threshold:.4g}"

    def __init__(self, min_points: int = MIN_POINTS) -> None:
        """Takes from how many losses on it judges."""
        super().__init__()
        self._min_points = min_points
        self._window = RunningWindow(WINDOW)

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        window, limit = self._window, math.inf
        if len(window) >= self._min_points:
            mean = window.mean
            if value > mean:  # most steps need no σ
                limit = mean + max(SIGMAS * window.std, LEAST_RISE * abs(mean))
        window.push(value)
        return (value, limit) if value > limit else None
