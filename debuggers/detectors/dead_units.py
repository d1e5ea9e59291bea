"""Dead units: most of a layer's units hardly ever answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

ACTIVE_SHARE = 0.01


def dead_fraction(active_fractions: npt.ArrayLike) -> float:
    """Returns the share of a layer's units that are active in less than 1 % of the inputs.

    Args:
        active_fractions: For each unit, the share of inputs for which its output is not zero. A unit whose share is
            NaN, seen with no input, does not count.

    Returns:
        Between 0 and 1; NaN when no unit counts.
    """
    shares = np.asarray(active_fractions, np.float64).ravel()
    shares = shares[~np.isnan(shares)]
    return float((shares < ACTIVE_SHARE).mean()) if shares.size else float("nan")


class DeadUnits(Detector):
    """More than half of a layer's units are dead: active in less than 1 % of the inputs (``dead_fraction``)."""

    kind = "dead_units"
    level = "warning"
    statistics = frozenset({"dead_fraction"})
    judged = "dead_fraction"
    rule = "over 50 % of the units active in under 1 % of the inputs (DeadRelu of SageMaker Debugger)"
    evidence = "{value:.0%} of the units are dead, more than {threshold:.0%}"
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["dead_fraction"] > 0.5, 0.5
