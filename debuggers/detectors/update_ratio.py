"""Updates that are too small or too large for the weights they change."""

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Observation

Counts = npt.NDArray[np.int64]

_SHARE = 10
"""The last tenth of all observed steps must break the rule."""


class SmallUpdate(Detector):
    """|Δw| / |w| is below 1e-8 at three observed steps in a row: the weights hardly change; healthy is near 1e-3.

    Three, because the first update is zero if the learning rate warms up from zero. They count once the ratio has
    been low for a tenth of all observed steps: a schedule that decays to zero ends in updates that are rounded away,
    and a cosine is below 1 % of its peak for the last 6 % of its steps. A bias is ignored while another parameter
    of its module is updated: before a normalisation layer, or for attention keys, it has no gradient by
    construction. A NaN ratio, of non-finite weights, does not break the rule.
    """

    kind = "small_update"
    level = "warning"
    statistics = frozenset({"update_ratio"})
    judged = "update_ratio"
    rule = "|Δw| / (|w| + 1e-9) < 1e-8 (WeightUpdateRatio of SageMaker), at 3 steps in a row, after a tenth of all"
    evidence = "update ratio {value:.2g} is below {threshold:.2g}"
    consecutive_steps = 3
    worst = np.fmin
    threshold = 1e-8

    def __init__(self) -> None:
        super().__init__()
        self._modules = ModuleParts()
        self._seen: Counts = np.empty(0, np.int64)
        self._lasting: Counts = np.empty(0, np.int64)

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        ratios = observation.values["update_ratio"]
        broken = ratios < self.threshold
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, ratios >= self.threshold)
        return broken & self._is_lasting(broken, observation.present), self.threshold

    def _is_lasting(self, broken: Bools, present: Bools) -> Bools:
        """Whether it has lasted for a tenth of the steps at which the row was observed."""
        new = np.zeros(len(broken) - len(self._seen), np.int64)
        self._seen = np.append(self._seen, new) + present
        lasting = np.append(self._lasting, new)
        self._lasting = np.where(present, np.where(broken, lasting + 1, 0), lasting)
        return self._lasting * _SHARE >= self._seen


class LargeUpdate(Detector):
    """|Δw| / |w| is above 10 at three observed steps in a row: the update replaces the weights.

    Three, because the first update of a parameter that starts at zero has an arbitrarily large ratio.
    """

    kind = "large_update"
    level = "warning"
    statistics = frozenset({"update_ratio"})
    judged = "update_ratio"
    rule = "|Δw| / (|w| + 1e-9) > 10 (WeightUpdateRatio of SageMaker), at 3 observed steps in a row"
    evidence = "update ratio {value:.2g} is above {threshold:.2g}"
    consecutive_steps = 3
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["update_ratio"] > 10, 10.0
