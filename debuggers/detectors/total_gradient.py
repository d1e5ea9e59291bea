"""Rules for the norm of all gradients together, which is known of every step."""

from __future__ import annotations

import numpy as np

from debuggers.detectors.exploding_gradient import MIN_POINTS, ExplodingGradient
from debuggers.detectors.non_finite import NonFiniteGradient
from debuggers.detectors.observation import Bools, Floats, Observation

EARLY_FACTOR = 50.0
EARLY_LEAST = 10.0


class ExplodingTotal(ExplodingGradient):
    """The rule of ``ExplodingGradient``, and another one as long as there is no window to compare with.

    Until 16 norms were seen, one above 50 times the smallest of them and above 10 breaks the rule: a learning rate
    that is far too high shows in the second or third step. Not of a single tensor, whose first gradients may be tiny
    by construction. Both numbers are stepscope's own choice.
    """

    rule = (
        "log10 |g| > mean + 6 σ over the last 128 values, σ at least 0.1, from 16 values on; |g| > 1e6; "
        "before that |g| > 10 and 50 times the smallest so far"
    )

    def __init__(self) -> None:
        super().__init__()
        self._smallest = np.inf
        self._seen = 0

    def check(self, observation: Observation) -> tuple[Bools, Floats]:
        """See the class."""
        broken, limits = super().check(observation)
        norm = float(observation.values["norm"][0])
        if self._seen < MIN_POINTS and 0 < norm < np.inf:
            self._seen += 1
            early = max(EARLY_LEAST, EARLY_FACTOR * self._smallest)
            if norm > early:
                broken, limits = np.array([True]), np.minimum(limits, early)
            self._smallest = min(self._smallest, norm)
        return broken, limits


class NonFiniteTotal(NonFiniteGradient):
    """Any element of any gradient is NaN or infinite; see ``NonFinite``."""

    evidence = "some element is NaN or infinite"
