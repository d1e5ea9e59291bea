"""Gradients most of whose elements are zero."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

LIMIT = 0.7
LASTING = 10
HALF = 0.5


class GradientZeros(Detector):
    """70 % of a gradient's elements or more are exactly zero, in half of the parameters, at 10 sampled steps in a row.

    Half of the parameters, because an embedding's gradient is zero but for the words of the batch, and an expert's but
    for its share. Only told: with one sample a batch, inactive units and zero inputs alone make up 75 %. Gradients that
    are zero everywhere are the business of ``ZeroGradient``, and count here too.
    """

    kind = "gradient_zeros"
    level = "info"
    statistics = frozenset({"gradient_zeros"})
    judged = "gradient_zeros"
    rule = "elements of the gradient that are exactly 0 >= 70 % (AutoTrainer), in half of the parameters, 10 times"
    evidence = "{value:.0%} of the gradient's elements are zero, {threshold:.0%} or more, as in half of the parameters"
    consecutive_steps = LASTING
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        broken = observation.values["gradient_zeros"] >= LIMIT
        if np.count_nonzero(broken) < HALF * np.count_nonzero(observation.present):
            broken[:] = False
        return broken, LIMIT
