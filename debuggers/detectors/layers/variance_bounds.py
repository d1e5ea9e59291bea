"""Variances outside of bounds that a user sets."""

import math

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Floats, Observation


class VarianceBounds(Detector):
    """The variance of a layer's output is outside of the user's bounds; there is no default.

    ::

        stepscope.watch(model, optimizer, detectors=[VarianceBounds(1e-4, 100.0)])

    A NaN, of an output without finite elements, does not break the rule.
    """

    kind = "variance_out_of_bounds"
    level = "warning"
    statistics = frozenset({"output_std"})
    judged = "output_std"
    rule = "variance of the output outside of the user's bounds (TensorVariance of SageMaker Debugger)"
    evidence = "standard deviation {value:.3g} is beyond {threshold:.3g}, the root of the bound"
    worst = np.fmax

    def __init__(self, lowest: float = 0.0, highest: float = math.inf) -> None:
        """Takes the bounds of the variance, which are allowed themselves.

        Raises:
            ValueError: Unless 0 <= lowest < highest.
        """
        if not 0 <= lowest < highest:
            raise ValueError(f"lowest is {lowest!r} and highest is {highest!r}; expected 0 <= lowest < highest")
        super().__init__()
        self._lowest, self._highest = math.sqrt(lowest), math.sqrt(highest)

    def check(self, observation: Observation) -> tuple[Bools, Floats]:
        """See the class."""
        stds = observation.values["output_std"]
        below = stds < self._lowest
        return below | (stds > self._highest), np.where(below, self._lowest, self._highest)
