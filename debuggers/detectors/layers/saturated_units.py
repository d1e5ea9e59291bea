"""Saturated units: an activation function works where it is flat."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

LIMIT = 0.9
LASTING = 5


class SaturatedUnits(Detector):
    """90 % of a layer's outputs or more are within 0.01 of a bound, at 5 sampled steps in a row.

    The other rules in use, 50 % of tanh inputs beyond 9.5 (SageMaker Debugger) or 50 % of inputs beyond 5
    (DeepDiagnosis), need the inputs. The model's own output should not be judged: sure of its answer, it is saturated
    rightly, and so is attention (``SignalDetectors`` leaves such layers out).
    """

    kind = "saturated_units"
    level = "warning"
    statistics = frozenset({"saturated"})
    judged = "saturated"
    rule = (
        "outputs within 0.01 of a bound >= 90 %, at 5 sampled steps in a row (after SaturatedActivation of SageMaker)"
    )
    evidence = "{value:.0%} of the outputs are within 0.01 of a bound, {threshold:.0%} or more"
    consecutive_steps = LASTING
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["saturated"] >= LIMIT, LIMIT
