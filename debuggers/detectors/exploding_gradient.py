"""Exploding gradients: norms far above those of the last steps, or above an absolute limit."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Floats, Observation

WINDOW = 128
MIN_POINTS = 16
SIGMAS = 6
SMALLEST_DECADES = 1.0
HIGHEST_START = 10.0
ABSOLUTE_LIMIT = 1e6
ROUNDING = 1e-4
"""Share of a step's largest norm below which a norm may be nothing but rounding: of a thousand float32 summands."""
_LOG_LIMIT = np.log10(ABSOLUTE_LIMIT)
_LOG_START = np.log10(HIGHEST_START)


class ExplodingGradient(Detector):
    """log10 of the gradient's norm exceeds mean + max(6 σ, 1) of its last 128 values, once there are 16.

    σ is the sample standard deviation. The logarithm is used because norms vary by factors: if noise doubles a norm
    now and then, the same rule on the norm itself fires every thousand steps, and an outlier in the window hides
    the next. A norm below ten times the geometric mean never breaks the rule, however steady the norms were. Neither
    does one below the geometric mean of the first 16 norms, or below 10 if that mean is higher: near convergence,
    the norms of a healthy training are tiny and swing by orders of magnitude. The window omits norms that are zero,
    and those of gradients with a NaN or an infinity.

    A norm below a ten-thousandth of the largest one of its step may be rounding alone, whose size says nothing: a bias
    that only shifts all outputs of a loss of distances or differences has no gradient.

    A batch of fewer rows than usual may have a norm that is larger by the root of the ratio: see ``BatchNoise``.

    A norm above 1e6 always breaks the rule: a network that explodes from its first step has no healthy norms to
    compare with. Tools use limits of 10, 1e4 and 1e6; this is the highest. Gradients grow with the unit of the loss, so
    that it is 1e6 times ``unit()``, which is more than 1 where targets are huge numbers. The lower limits are
    stepscope's own choice: in 260,000 steps of small networks on scikit-learn's digits, they leave one alarm of eight,
    the true one.
    """

    kind = "exploding_gradient"
    level = "error"
    statistics = frozenset({"norm", "non_finite"})
    judged = "norm"
    rule = (
        "log10 |g| > mean + max(6 σ, 1) over the tensor's last 128 values, from 16 values on (the spike test of OLMo, "
        "128 values and 6 σ, on logarithms), and |g| above its first 16 values' geometric mean, or 10 if that is less; "
        "or |g| > 1e6 (the highest limit in use) times a constant output's loss, if that is above 1; none below 1e-4 "
        "of the largest norm of its step"
    )
    evidence = "norm {value:.3g} is above {threshold:.3g}"
    worst = np.fmax

    def __init__(
        self, noise: Callable[[int], float] = lambda step: 1.0, unit: Callable[[], float] = lambda: 1.0
    ) -> None:
        """Judges nothing yet.

        ``noise(step)`` says how many times as large as usual a step's noise may be, ``unit()`` what a loss of usual
        size is, at least 1.
        """
        super().__init__()
        self._noise, self._unit, self._window = noise, unit, _Window()

    def check(self, observation: Observation) -> tuple[Bools, Floats]:
        """See the class."""
        norms = observation.values["norm"]
        usable = (norms > 0) & (norms < np.inf) & (observation.values["non_finite"] == 0)
        logarithms = np.log10(norms, out=np.zeros_like(norms), where=usable)
        noise = np.log10(self._noise(observation.step))
        limits = np.minimum(self._window.limits(len(norms)) + noise, _LOG_LIMIT + np.log10(self._unit()))
        self._window.push(usable, logarithms)
        counts = norms > ROUNDING * norms.max(where=usable, initial=0.0)
        return usable & counts & (logarithms > limits), np.power(10.0, limits)


class _Window:
    """The last values of each row, with their running sums, and where each row started.

    The sums stay exact enough for a run of any length, because logarithms of float64 lie within ±324 and σ only
    counts above 1/6.
    """

    def __init__(self) -> None:
        self._values: Floats = np.empty((WINDOW, 0))
        self._sum: Floats = np.empty(0)
        self._squares: Floats = np.empty(0)
        self._start: Floats = np.empty(0)
        self._seen: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._common: int | None = 0  # how many values each row has seen, if all have seen as many

    def limits(self, rows: int) -> Floats:
        """The limit of each row's logarithm; infinity if there are too few values."""
        if rows != len(self._seen):
            self._grow(rows)
        if self._common is not None and self._common < MIN_POINTS:
            return np.full(rows, np.inf)
        seen = self._seen if self._common is None else self._common
        points = np.minimum(np.maximum(seen, 2), WINDOW)
        means = self._sum / points
        variances = (self._squares - points * means * means) / (points - 1)
        spreads = np.maximum(SIGMAS * np.sqrt(np.maximum(variances, 0)), SMALLEST_DECADES)
        limits: Floats = np.maximum(means + spreads, self._start)
        if self._common is None:
            limits[self._seen < MIN_POINTS] = np.inf
        return limits

    def push(self, usable: Bools, values: Floats) -> None:
        """Replaces the oldest values of the usable rows."""
        if self._common is not None and usable.all():
            self._push_to_all(self._common, values)
            return
        self._common = None
        (rows,) = usable.nonzero()
        slots = self._seen[rows] % WINDOW
        new, old = values[rows], self._values[slots, rows]
        self._values[slots, rows] = new
        self._sum[rows] += new - old
        self._squares[rows] += new * new - old * old
        self._seen[rows] += 1
        started = rows[self._seen[rows] == MIN_POINTS]
        self._start[started] = np.minimum(self._sum[started] / MIN_POINTS, _LOG_START)

    def _push_to_all(self, seen: int, values: Floats) -> None:
        """Does the same where all rows have seen as many values and get another, which is the rule."""
        kept = self._values[seen % WINDOW]
        self._sum += values - kept
        self._squares += values * values - kept * kept
        kept[:] = values
        self._seen += 1
        self._common = seen + 1
        if self._common == MIN_POINTS:
            self._start = np.minimum(self._sum / MIN_POINTS, _LOG_START)

    def _grow(self, rows: int) -> None:
        more = rows - len(self._seen)
        if self._common:
            self._common = None
        self._values = np.append(self._values, np.zeros((WINDOW, more)), axis=1)
        self._sum, self._squares = (np.append(sums, np.zeros(more)) for sums in (self._sum, self._squares))
        self._start = np.append(self._start, np.full(more, -np.inf))
        self._seen = np.append(self._seen, np.zeros(more, np.int64))
