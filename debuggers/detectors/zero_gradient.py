"""Gradients that are zero everywhere: layers that nothing reaches."""

from __future__ import annotations

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Observation


class ZeroGradient(Detector):
    """All elements of a gradient are zero at three observed steps in a row.

    Behind units that are dead, in a branch without influence on the loss, or where a product of small factors
    underflowed. One such step is ordinary: a layer behind weights that start at zero gets no gradient at first.
    A bias is left out while another parameter of its module gets gradient: where the loss is a difference of outputs,
    as of a critic, that of the last layer cancels out.
    """

    kind = "zero_gradient"
    level = "warning"
    statistics = frozenset({"zero_fraction"})
    judged = "zero_fraction"
    rule = "zeros = 100 % (AllZero of SageMaker Debugger), at 3 observed steps in a row"
    evidence = "the gradient is zero everywhere"
    patience = 3
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._modules = ModuleParts()

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        zeros = observation.values["zero_fraction"]
        broken = zeros == 1
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, zeros < 1)
        return broken, 1.0
