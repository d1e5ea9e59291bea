"""Vanishing gradients: means of |g| that are too small to move anything."""

from __future__ import annotations

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Observation


class VanishingGradient(Detector):
    """The mean of |g| over finite elements is above zero and below 1e-7.

    A gradient that is zero everywhere belongs to ``ZeroGradient``. A bias is left out while another parameter of
    its module gets gradient: one before a normalisation layer, or that of attention keys, has none by construction.
    A mean that is NaN, of a tensor without finite elements, breaks nothing here.
    """

    kind = "vanishing_gradient"
    level = "warning"
    statistics = frozenset({"mean_magnitude"})
    judged = "mean_magnitude"
    rule = "0 < mean |g| < 1e-7 (VanishingGradient of SageMaker Debugger)"
    evidence = "mean |g| {value:.2g} is below {threshold:.2g}"
    worst = np.fmin
    threshold = 1e-7

    def __init__(self) -> None:
        super().__init__()
        self._modules = ModuleParts()

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        means = observation.values["mean_magnitude"]
        broken = (means > 0) & (means < self.threshold)
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, means >= self.threshold)
        return broken, self.threshold
