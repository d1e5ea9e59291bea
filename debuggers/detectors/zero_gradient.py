"""Gradients that are zero everywhere: layers that nothing reaches."""

from __future__ import annotations

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation


class ZeroGradient(Detector):
    """All elements of a gradient are zero at three observed steps in a row.

    Behind units that are dead, in a branch without influence on the loss, or where a product of small factors
    underflowed. One such step is ordinary: a layer behind weights that start at zero gets no gradient at first.
    """

    kind = "zero_gradient"
    level = "warning"
    statistics = frozenset({"zero_fraction"})
    judged = "zero_fraction"
    rule = "zeros = 100 % (AllZero of SageMaker Debugger), at 3 observed steps in a row"
    evidence = "the gradient is zero everywhere"
    patience = 3
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["zero_fraction"] == 1, 1.0
