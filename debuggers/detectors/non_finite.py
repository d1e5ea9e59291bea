"""NaN and infinity: always a fault, except while a GradScaler searches for its scale."""

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Observation

MAX_EXPECTED_OVERFLOWS = 16


class NonFinite(Detector):
    """Any element is NaN or infinite.

    If overflows are expected, the rule is only broken when a tensor overflows at more than 16 such steps in a row.
    The scale of ``torch.amp.GradScaler`` starts at 65536 and is halved at each overflow: after 16 it is 1, and can
    no longer be the cause.
    """

    level = "error"
    statistics = frozenset({"non_finite"})
    judged = "non_finite"
    rule = "any NaN or infinity (ExplodingTensor of SageMaker Debugger); up to 16 expected overflows in a row are none"
    evidence = "NaN or infinite elements: {value:.0f}"
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._expected: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        broken = observation.values["non_finite"] > 0
        if len(self._expected) != len(broken):
            self._expected = np.append(self._expected, np.zeros(len(broken) - len(self._expected), np.int64))
        if not observation.expected_overflow:
            self._expected[observation.present] = 0
            return broken, 0.0
        self._expected[broken] += 1
        self._expected[observation.present & ~broken] = 0
        return broken & (self._expected > MAX_EXPECTED_OVERFLOWS), 0.0


class NonFiniteGradient(NonFinite):
    """Any element of a gradient is NaN or infinite; see ``NonFinite``."""

    kind = "non_finite_gradient"


class NonFiniteActivation(NonFinite):
    """Any element of an activation is NaN or infinite; see ``NonFinite``."""

    kind = "non_finite_activation"


class NonFiniteLoss(NonFinite):
    """The loss is NaN or infinite; see ``NonFinite``."""

    kind = "non_finite_loss"
    evidence = "NaN or infinite"
