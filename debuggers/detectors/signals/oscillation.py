"""Losses, gradients and accuracies that go back and forth."""

import math
from collections import deque
from itertools import pairwise

from debuggers.detectors.running_window import RunningWindow
from debuggers.detectors.signal_detector import SignalDetector

CHANGES = 50
MOST_SIGN_CHANGES = 0.9
COSINES = 20
LOWEST_COSINE = -0.3
LEAST_SWING = 0.03
MOST_SWINGS = 0.2
VALIDATIONS = 50
MIN_VALIDATIONS = 10


class OscillatingLoss(SignalDetector):
    """The change of the loss has another sign than the one before at 90 % of 50 steps.

    Of independent losses, which those of small batches nearly are, two thirds of the changes have another sign than
    the one before: TheDeepChecker's limit of one half would fire at every training on batches. Only told: an
    alternation of two losses, or of two batches, looks the same.
    """

    kind = "oscillating_loss"
    level = "info"
    signals = frozenset({"loss"})
    rule = "sign changes of Δloss at > 90 % of 50 steps (TheDeepChecker has 50 %, which noise exceeds)"
    evidence = "the loss turned at {value:.0%} of 50 steps, more than {threshold:.0%}"

    def __init__(self) -> None:
        super().__init__()
        self._turns: deque[bool] = deque(maxlen=CHANGES)
        self._count = 0
        self._last = math.nan
        self._change = 0.0

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        change, self._last = value - self._last, value
        turned = change * self._change < 0
        self._change = change
        if len(self._turns) == CHANGES:
            self._count -= self._turns[0]
        self._turns.append(turned)
        self._count += turned
        return (self._count / CHANGES, MOST_SIGN_CHANGES) if self._count > MOST_SIGN_CHANGES * CHANGES else None


class OscillatingGradient(SignalDetector):
    """Successive gradients point in opposite directions: the mean of the last 20 cosines is below -0.3.

    Steps that go too far come back with the next one; at twice the largest stable learning rate the cosine is -1.
    Independent batches have cosines around 0. The limit and the window are stepscope's own. Only told, because a sound
    training on the whole data set works at the edge of stability (Cohen et al. 2021), with cosines below 0.
    """

    kind = "oscillating_gradient"
    level = "info"
    signals = frozenset({"gradient_cosine"})
    rule = "mean of the last 20 cos(g_t, g_{t-1}) < -0.3 (stepscope's choice)"
    evidence = "the mean cosine of successive gradients {value:.2f} is below {threshold:.2f}"

    def __init__(self) -> None:
        super().__init__()
        self._window = RunningWindow(COSINES)

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        self._window.push(value)
        if not self._window.is_full:
            return None
        mean = self._window.mean
        return (mean, LOWEST_COSINE) if mean < LOWEST_COSINE else None


class OscillatingAccuracy(SignalDetector):
    """The validation accuracy swings by at least 0.03 between turning points, at 20 % of the validations or more.

    Of the last 50 validations, from 10 on. Only told, because a small validation set swings by chance.
    """

    kind = "oscillating_accuracy"
    level = "info"
    signals = frozenset({"validation/accuracy"})
    rule = "local max - min of the accuracy >= 0.03 at >= 20 % of the validations (AutoTrainer, of epochs)"
    evidence = "the accuracy swung at {value:.0%} of the validations, {threshold:.0%} or more"

    def __init__(self) -> None:
        super().__init__()
        self._values: deque[float] = deque(maxlen=VALIDATIONS)

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        self._values.append(value)
        if len(self._values) < MIN_VALIDATIONS:
            return None
        turns = _turning_points(list(self._values))
        swings = sum(abs(after - before) >= LEAST_SWING for before, after in pairwise(turns))
        share = swings / len(self._values)
        return (share, MOST_SWINGS) if share >= MOST_SWINGS else None


def _turning_points(values: list[float]) -> list[float]:
    """The local extremes inside of a series."""
    return [
        here
        for before, here, after in zip(values, values[1:], values[2:], strict=False)
        if (here - before) * (after - here) < 0
    ]
