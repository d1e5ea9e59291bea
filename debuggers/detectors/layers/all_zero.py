"""Outputs that are zero everywhere."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

LASTING = 5


class AllZero(Detector):
    """All elements of a layer's output are zero, at 5 sampled steps in a row.

    Five, because adapters and residual branches begin with an output of zero and leave it within the first steps.
    Gradients that are zero everywhere are the business of ``ZeroGradient``.
    """

    kind = "all_zero"
    level = "warning"
    statistics = frozenset({"output_zeros"})
    judged = "output_zeros"
    rule = "zeros = 100 % (AllZero of SageMaker Debugger) of a layer's output, at 5 sampled steps in a row"
    evidence = "the output is zero everywhere"
    consecutive_steps = LASTING
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["output_zeros"] >= 1.0, 1.0
