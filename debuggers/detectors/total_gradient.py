"""Rules for the total gradient norm, which is known for every step."""

import math
from collections import deque

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.exploding_gradient import (
    ABSOLUTE_LIMIT,
    HIGHEST_START,
    MIN_POINTS,
    SIGMAS,
    SMALLEST_DECADES,
    WINDOW,
    ExplodingGradient,
)
from debuggers.detectors.non_finite import NonFiniteGradient
from debuggers.detectors.observation import Bools, Floats, Observation
from debuggers.detectors.zero_gradient import LONGEST_TURN, ZeroGradient

EARLY_FACTOR = 50.0
EARLY_LEAST = 10.0


class TotalLimit:
    """The limit of the next norm, from the norms before it; in plain numbers, because it runs at every step.

    It is that of ``ExplodingGradient``. Until 16 norms were seen, it is 50 times the smallest of them, and at least
    10, because a learning rate that is far too high shows in the second or third step. Single tensors have no such
    limit: their first gradients may be tiny by construction. Both numbers are stepscope's own choice.

    Attributes:
        unit: What a loss of usual size is, at least 1: see ``ExplodingGradient``.
    """

    def __init__(self) -> None:
        self._logs: deque[float] = deque(maxlen=WINDOW)
        self._sum = self._squares = 0.0
        self._smallest = math.inf
        self._start = -math.inf
        self.unit = 1.0

    @property
    def highest(self) -> float:
        """The largest norm that breaks no rule, whatever came before."""
        return ABSOLUTE_LIMIT * self.unit

    def value(self) -> float:
        """The largest norm that breaks no rule."""
        points = len(self._logs)
        if points < MIN_POINTS:
            return min(self.highest, max(EARLY_LEAST, EARLY_FACTOR * self._smallest))
        mean = self._sum / points
        variance = (self._squares - points * mean * mean) / (points - 1)
        log = max(mean + max(SIGMAS * math.sqrt(max(variance, 0.0)), SMALLEST_DECADES), self._start)
        return min(self.highest, math.pow(10.0, min(log, 300.0)))

    def push(self, norm: float) -> None:
        """Adds a norm, unless it is zero or not finite."""
        if not 0 < norm < math.inf:
            return
        log = math.log10(norm)
        if len(self._logs) == WINDOW:
            self._sum -= self._logs[0]
            self._squares -= self._logs[0] ** 2
        self._logs.append(log)
        self._sum += log
        self._squares += log * log
        self._smallest = min(self._smallest, norm)
        if len(self._logs) == MIN_POINTS and self._start == -math.inf:
            self._start = min(self._sum / MIN_POINTS, math.log10(HIGHEST_START))


class ZeroTotalPeriod:
    """Whether the norm has been 0 for longer than alternating training explains; see ``ZeroGradient``.

    Only if it was non-zero before: a rank may hold no element of the gradients.
    """

    def __init__(self) -> None:
        self._alive = self._streak = self._longest = 0

    def push(self, norm: float) -> bool:
        """Adds a norm and returns whether it has been 0 for too long."""
        if norm != 0:
            self._alive += 1
            self._longest, self._streak = max(self._longest, self._streak), 0
            return False
        self._streak += 1
        return self._alive > 0 and self._streak > max(min(self._alive, LONGEST_TURN), 2 * self._longest)


class ExplodingTotal(Detector):
    """The norm of all gradients together is above its ``TotalLimit``."""

    kind = ExplodingGradient.kind
    level = ExplodingGradient.level
    statistics = frozenset({"norm", "limit"})
    judged = "norm"
    rule = (
        "log10 |g| > mean + max(6 σ, 1) over the last 128 values, from 16 values on, and |g| above the geometric mean "
        "of the first 16, or 10 if that is less; or |g| > 1e6 times a constant output's loss, if that is above 1; "
        "before 16 values, |g| > 10 and 50 times the smallest"
    )
    evidence = ExplodingGradient.evidence
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, Floats]:
        """See the class."""
        limits = observation.values["limit"]
        return observation.values["norm"] > limits, limits


class NonFiniteTotal(NonFiniteGradient):
    """Any element of any gradient is NaN or infinite; see ``NonFinite``."""

    evidence = "some element is NaN or infinite"


class ZeroTotal(Detector):
    """All gradients are zero everywhere, for longer than ``ZeroTotalPeriod`` allows.

    Counts every step: if few are measured, ``ZeroGradient`` takes very many steps to report.
    """

    kind = ZeroGradient.kind
    level = ZeroGradient.level
    statistics = frozenset({"too_many_zeros"})
    judged = "too_many_zeros"
    rule = "|g| = 0 at more steps in a row than it was non-zero at (at most 100), and than twice its longest such run"
    evidence = ZeroGradient.evidence
    consecutive_steps = ZeroGradient.consecutive_steps
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["too_many_zeros"] == 1, 1.0
