"""A detector that learns from the run itself what a usual step looks like."""

import math
from typing import Annotated

import numpy as np
from msgspec import Meta
from tracker_adapters.values.checked_values import check_value

from stability.errors import StabilityConfigError

HALF_LIFE = 100
"""Steps after which a value counts half: a few times what a learning rate's warm-up or decay takes to show."""
LEVEL_HALF_LIFE = 0.1
"""Of ``half_life``, for the level: what a training does to its loss and norm within the half-life of their spread is
trend. Taken for spread, it hides a norm of hundreds of times the usual one."""
WARM_UP = 50
FALSE_ALARMS = 1e-3
"""Steps of Gaussian noise, which has lighter tails than the model, are told far more rarely."""
_FREEDOM = 4.0
"""Degrees of freedom of the t distribution: gradient noise has tails about as heavy (Simsekli et al. 2019,
arXiv 1901.06053, measure tails much heavier than Gaussian)."""
_LARGEST_LOSS = 1e100
"""Beyond, the squares of float64 would overflow; such a loss counts as this one."""
_SMALLEST_SPREAD = 1e-3
"""Of the decimal logarithm of the norm, and of the loss relative to its size: smaller changes are never unusual."""
_Steps = Annotated[float, Meta(ge=1, description="a number of steps above 0")]
_Share = Annotated[float, Meta(gt=0, lt=1, description="0 to 1")]


class LearnedDetector:
    """Tells steps whose loss and gradient norm do not fit those of the run so far, taken together.

    A multivariate t distribution with 4 degrees of freedom is fitted online to ``x = (loss, log10 norm)``: with
    ``D² = (x - m)ᵀ S⁻¹ (x - m)``, each step moves the level ``m`` by ``b w (x - m)`` and the spread around it ``S`` to
    ``(1 - a) S + a w (x - m)(x - m)ᵀ``, where ``w = (4 + 2) / (4 + D²)`` is the weight of maximum likelihood (Lange,
    Little and Taylor 1989), so that an outlier hardly moves the model. ``a = 1 - 2^(-1 / half_life)`` lets the spread
    follow the training, and ``b``, of a tenth of the half-life, lets the level follow its trend (both larger at first,
    like a plain average). A step is unusual when ``D²`` is beyond the quantile
    of that distribution: ``(1 + D² / 4)^-2 < false_alarms``. S is what ``w`` makes of the spread, which maximum
    likelihood matches to the t distribution's scale.

    A step whose loss or norm is not finite is no matter of likelihood: other rules tell it, and it teaches nothing.
    A step that merely falls, both loss and norm, is welcome and never told.
    """

    def __init__(
        self, *, half_life: int = HALF_LIFE, warm_up: int = WARM_UP, false_alarms: float = FALSE_ALARMS
    ) -> None:
        """Makes a detector that knows nothing yet.

        Args:
            half_life: Steps after which a value counts half in the spread; in the level it does so after a tenth.
            warm_up: Steps that are only learnt from.
            false_alarms: The share of usual steps that are told; between 0 and 1.

        Raises:
            StabilityConfigError: For a value out of range.
        """
        check_value("LearnedDetector: half_life", half_life, _Steps, StabilityConfigError)
        check_value("LearnedDetector: warm_up", warm_up, _Steps, StabilityConfigError)
        check_value("LearnedDetector: false_alarms", false_alarms, _Share, StabilityConfigError)
        self._rate, self._level_rate = (
            -math.expm1(-math.log(2) / steps) for steps in (half_life, LEVEL_HALF_LIFE * half_life)
        )
        self._warm_up = warm_up
        self._limit = _FREEDOM * (false_alarms**-0.5 - 1)
        self._seen = 0
        self._mean: tuple[float, float] = (0.0, 0.0)
        """Of loss and log10 norm."""
        self._spread: tuple[float, float, float] = (1.0, 0.0, 1.0)
        """Variance of the loss, covariance, variance of the log10 norm."""

    def update(self, loss: float, norm: float) -> str | None:
        """Takes a step's loss and gradient norm (before clipping); says in a sentence why it is unusual, or None."""
        if not (math.isfinite(loss) and math.isfinite(norm) and norm > 0):
            return None
        # Plain floats: numpy takes ten times as long for two values.
        loss_value, norm_value = math.copysign(min(abs(loss), _LARGEST_LOSS), loss), math.log10(norm)
        if self._seen == 0:
            self._mean = loss_value, norm_value
            self._spread = self._floor(), 0.0, _SMALLEST_SPREAD**2
        dx, dy = loss_value - self._mean[0], norm_value - self._mean[1]
        xx, xy, yy = self._spread[0] + self._floor(), self._spread[1], self._spread[2] + _SMALLEST_SPREAD**2
        slope = xy / xx
        distance = dx / xx * dx + (dy - slope * dx) ** 2 / (yy - slope * xy)
        reason = None
        if self._seen >= self._warm_up and distance > self._limit and (dx > 0 or dy > 0):
            reason = (
                f"loss {loss:.4g} and gradient norm {norm:.4g} are unusual in this run, where they are around "
                f"{self._mean[0]:.4g} and {10 ** self._mean[1]:.4g}; distance {math.sqrt(distance):.0f} spreads, limit "
                f"{math.sqrt(self._limit):.0f}"
            )
        self._learn(dx, dy, distance)
        return reason

    def state_dict(self) -> dict[str, object]:
        """What it has learnt, as plain values."""
        xx, xy, yy = self._spread
        return {"seen": self._seen, "mean": [*self._mean], "spread": [[xx, xy], [xy, yy]]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Goes on from what ``state_dict`` returned."""
        self._seen = int(state["seen"])  # type: ignore[call-overload]
        mean, spread = np.array(state["mean"], float), np.array(state["spread"], float)
        self._mean = float(mean[0]), float(mean[1])
        self._spread = float(spread[0, 0]), float(spread[0, 1]), float(spread[1, 1])

    def _learn(self, dx: float, dy: float, distance: float) -> None:
        self._seen += 1
        rate, level_rate = (max(rate, 1 / (self._seen + 1)) for rate in (self._rate, self._level_rate))
        # At first every distance is large, because nothing is known of the spread.
        weight = (_FREEDOM + 2) / (_FREEDOM + distance) if self._seen > self._warm_up // 2 else 1.0
        move, keep, add = level_rate * min(weight, 1.0), 1 - rate, rate * weight
        self._mean = self._mean[0] + move * dx, self._mean[1] + move * dy
        xx, xy, yy = self._spread
        self._spread = keep * xx + add * dx * dx, keep * xy + add * dx * dy, keep * yy + add * dy * dy

    def _floor(self) -> float:
        """The smallest variance of the loss."""
        return (_SMALLEST_SPREAD * max(abs(self._mean[0]), 1e-12)) ** 2
