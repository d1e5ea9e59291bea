"""Vanishing gradients: means of |g| that are too small to change the weights, while those of other tensors are not."""

from __future__ import annotations

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Floats, Observation


class VanishingGradient(Detector):
    """The mean of |g| over finite elements is above zero, below 1e-7, and below a thousandth of the model's largest.

    The largest is that of all tensors' last means. Where all gradients are as small, the loss is, or the training has
    converged: adaptive optimizers compensate for it, and ``SmallUpdate`` reports what plain ones no longer change.

    A gradient that is zero everywhere belongs to ``ZeroGradient``. A bias is left out while another parameter of
    its module gets gradient: one before a normalisation layer, or that of attention keys, has none by construction.
    A mean that is NaN, of a tensor without finite elements, breaks nothing here.
    """

    kind = "vanishing_gradient"
    level = "warning"
    statistics = frozenset({"mean_magnitude"})
    judged = "mean_magnitude"
    rule = (
        "0 < mean |g| < 1e-7 (VanishingGradient of SageMaker Debugger), and < 1e-3 times the largest mean of a tensor "
        "of the model (the ratio of AutoTrainer)"
    )
    evidence = "mean |g| {value:.2g} is below {threshold:.2g}"
    worst = np.fmin
    threshold = 1e-7
    share = 1e-3

    def __init__(self) -> None:
        super().__init__()
        self._modules = ModuleParts()
        self._last: Floats = np.empty(0)

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        means = observation.values["mean_magnitude"]
        if len(means) > len(self._last):
            self._last = np.append(self._last, np.zeros(len(means) - len(self._last)))
        known = np.isfinite(means)
        self._last[known] = means[known]
        limit = min(self.threshold, self.share * float(self._last.max(initial=0.0)))
        broken = (means > 0) & (means < limit)
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, (means > 0) & ~broken)
        return broken, limit
