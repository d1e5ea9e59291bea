"""Weights that stay as they are."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

RELATIVE = 1e-5
OBSERVATIONS = 3


class UnchangedWeights(Detector):
    """|Δw| is at most 1e-5 |w| over the sampled elements, at 3 sampled steps in a row.

    The absolute tolerance of the source, 1e-8 an element, is left out: |Δw| / |w| does not show it. Only told: rows
    of an embedding that no batch has, and the end of a schedule look the same. ``ParameterWatch`` reports weights
    that never change, as ``weights_stand_still``.
    """

    kind = "unchanged_weights"
    level = "info"
    statistics = frozenset({"parameter_update_ratio"})
    judged = "parameter_update_ratio"
    rule = "allclose with rtol 1e-5 over 3 observations (UnchangedTensor of SageMaker Debugger)"
    evidence = "the sampled elements changed by {value:.2g} of their size, {threshold:.0e} or less"
    consecutive_steps = OBSERVATIONS
    worst = np.fmin

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["parameter_update_ratio"] <= RELATIVE, RELATIVE
