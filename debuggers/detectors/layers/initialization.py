"""Weights and activations that start at a wrong scale."""

import math

import numpy as np

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

FIRST = 10
HIGHEST_VARIANCE = 10.0
HIGHEST_RMS = math.sqrt(HIGHEST_VARIANCE)
LARGEST_RATIO = 10.0


class LargeWeights(Detector):
    """The mean square of a weight is above 10 at the first observation.

    What has no ``weight`` in its own name is ignored: a bias, or a number that a model makes something of, such as the
    logarithm of a deviation, a temperature or a place.

    The same source's lower limit of 1e-5 is left out: the weights of wide layers begin below it, and those of residual
    branches and adapters at zero.
    """

    kind = "poor_initialization"
    level = "warning"
    statistics = frozenset({"weight_rms"})
    judged = "weight_rms"
    rule = (
        "variance of the weights > 10 (DeepDiagnosis) at the first observation, as their mean square, of parameters "
        "whose own name holds `weight`"
    )
    evidence = "the weights begin with a root mean square of {value:.3g}, above {threshold:.3g}"
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._seen: Bools = np.empty(0, np.bool_)
        self._weight: Bools = np.empty(0, np.bool_)

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        rows = len(observation.present)
        if rows > len(self._seen):
            new = observation.names[len(self._seen) : rows]
            are_weights = ["weight" in name.rpartition(".")[2].lower() for name in new]
            self._weight = np.append(self._weight, np.array(are_weights, np.bool_))
            self._seen = np.append(self._seen, np.zeros(len(new), np.bool_))
        if self._seen.all():
            return np.zeros(rows, np.bool_), HIGHEST_RMS
        broken = (observation.values["weight_rms"] > HIGHEST_RMS) & ~self._seen & self._weight
        self._seen |= observation.present
        return broken, HIGHEST_RMS


class UnequalVariances(Detector):
    """The variance of a layer's output is above 10 times the smallest one of a layer, in the first 10 observations.

    Told for the layer with the largest one, at 3 of them in a row. Only told: layers with a normalisation, softmax or
    embedding differ by more in sound models. Layers whose outputs are constant are left out. The other rules in use do
    not say more: a gradient whose 5th and 95th percentile are within 0.001 (SageMaker Debugger) depends on the scale of
    the loss, and so does σ outside of 0.5 to 2 (TheDeepChecker) on the layer.
    """

    kind = "unequal_variances"
    level = "info"
    statistics = frozenset({"output_std"})
    judged = "output_std"
    rule = (
        "largest / smallest variance of a layer's output > 10, of the first 10 (PoorWeightInitialization of SageMaker)"
    )
    evidence = "standard deviation {value:.3g} of the output, above {threshold:.3g}: √10 times the smallest one"
    consecutive_steps = 3
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._observed = 0

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        stds = observation.values["output_std"]
        broken = np.zeros(len(stds), np.bool_)
        self._observed += 1
        if self._observed > FIRST:
            return broken, math.inf
        usable = (stds > 0) & (stds < np.inf)
        if not usable.any():
            return broken, math.inf
        limit = float(stds[usable].min()) * math.sqrt(LARGEST_RATIO)
        largest = int(np.argmax(np.where(usable, stds, -np.inf)))
        broken[largest] = stds[largest] > limit
        return broken, limit
