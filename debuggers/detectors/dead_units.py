"""Dead units: most of a layer's units are almost never active."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation


class DeadUnits(Detector):
    """More than half of a layer's units are dead: active in less than 1 % of the inputs.

    ``debuggers.activations.unit_activity`` measures the share of dead units. It is NaN for a layer that saw no
    input, which does not break the rule.
    """

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
