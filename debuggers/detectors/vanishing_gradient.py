"""Vanishing gradients: |g| is too small to change the weights, while that of other tensors is not."""

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Floats, Observation


class VanishingGradient(Detector):
    """The mean of |g| over finite elements is above zero, below 1e-7, and below a thousandth of the model's largest.

    The largest is taken over the last means of all tensors. If all gradients are equally small, the loss is small or
    the training has converged. Adaptive optimizers compensate for that; with others, ``SmallUpdate`` reports it.

    ``ZeroGradient`` reports gradients that are zero everywhere. A bias is ignored while another parameter of its
    module gets gradient, or has none to get: before a normalisation layer, or for attention keys, it has none by
    construction. At single steps a gradient may be as small by chance, as where a policy is certain of an action. A NaN
    mean, of a tensor without finite elements, does not break the rule.
    """

    kind = "vanishing_gradient"
    level = "warning"
    statistics = frozenset({"mean_magnitude"})
    judged = "mean_magnitude"
    rule = (
        "0 < mean |g| < 1e-7 (VanishingGradient of SageMaker Debugger), and < 1e-3 times the largest mean of a tensor "
        "of the model (the ratio of AutoTrainer), at 3 observed steps in a row"
    )
    evidence = "mean |g| {value:.2g} is below {threshold:.2g}"
    worst = np.fmin
    consecutive_steps = 3
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
        np.copyto(self._last, means, where=known)
        limit = min(self.threshold, self.share * float(self._last.max(initial=0.0)))
        broken = (means > 0) & (means < limit)
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, (means > 0) & ~broken)
        return broken, limit
