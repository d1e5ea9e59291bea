"""Layers whose units put out nothing, judged batch by batch."""

import numpy as np

from debuggers.detectors.dead_units import DeadUnits
from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

LASTING = 5


class DeadLayer(Detector):
    """No unit of a layer has a positive output for any input of the batch, at 5 sampled steps in a row.

    ``DeadUnits`` judges single units, and needs the outputs of many batches. In a single batch most units of a sparse
    layer are silent, and rightly: only a layer in which all are is told without knowing its batches.
    """

    kind = DeadUnits.kind
    level = DeadUnits.level
    statistics = frozenset({"dead_units"})
    judged = "dead_units"
    rule = "all units without a positive output in the batch, at 5 sampled steps in a row (after DeadRelu of SageMaker)"
    evidence = "no unit was active for any input of the batch"
    consecutive_steps = LASTING
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["dead_units"] >= 1.0, 1.0
