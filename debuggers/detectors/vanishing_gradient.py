"""Vanishing gradients: means of |g| that are too small to move anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
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
        self._modules = _Modules()

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        means = observation.values["mean_magnitude"]
        broken = (means > 0) & (means < self.threshold)
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, means >= self.threshold)
        return broken, self.threshold


class _Modules:
    """Which rows are biases, and which rows share a module."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._module: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._bias: Bools = np.empty(0, np.bool_)

    def idle_biases(self, observation: Observation, alive: Bools) -> Bools:
        """The biases of modules in which some parameter is alive."""
        new = [name.rpartition(".") for name in observation.names[len(self._module) : len(alive)]]
        numbers = [self._number_of.setdefault(module, len(self._number_of)) for module, _, _ in new]
        self._module = np.append(self._module, np.array(numbers, np.intp))
        self._bias = np.append(self._bias, np.array([parameter.endswith("bias") for _, _, parameter in new], np.bool_))
        modules = np.zeros(len(self._number_of), np.bool_)
        modules[self._module[alive]] = True
        return self._bias & modules[self._module]
