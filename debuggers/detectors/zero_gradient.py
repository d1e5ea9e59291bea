"""Gradients that are zero everywhere: layers without influence on the loss."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Observation

Counts = npt.NDArray[np.int64]

LONGEST_TURN = 100
"""Observed steps for which a gradient that had values may be zero at first."""


class ZeroGradient(Detector):
    """All elements of a gradient are zero at three observed steps in a row, or at more if it has had values before.

    Behind units that are dead, in a branch without influence on the loss, or where a product of small factors
    underflowed. One such step is ordinary: a layer behind weights that start at zero gets no gradient at first.
    Parts of a model may be trained in turn: a gradient that had values counts from where it has been zero for as many
    steps as it had them, or for 100, and for twice as long as it was ever zero before it had values again.
    A bias is left out while another parameter of its module gets gradient: where the loss is a difference of outputs,
    as of a critic, that of the last layer cancels out.
    """

    kind = "zero_gradient"
    level = "warning"
    statistics = frozenset({"zero_fraction"})
    judged = "zero_fraction"
    rule = (
        "zeros = 100 % (AllZero of SageMaker Debugger), at 3 observed steps in a row, after as many as had values "
        "before, up to 100, and twice as many as ever were zero in between"
    )
    evidence = "the gradient is zero everywhere"
    consecutive_steps = 3
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._modules = ModuleParts()
        self._alive: Counts = np.empty(0, np.int64)
        self._streak: Counts = np.empty(0, np.int64)
        self._longest: Counts = np.empty(0, np.int64)

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        zeros = observation.values["zero_fraction"]
        broken = zeros == 1
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, zeros < 1)
        return broken & self._exceeds_alternation(zeros == 1, zeros < 1), 1.0

    def _exceeds_alternation(self, zero: Bools, alive: Bools) -> Bools:
        """Whether a gradient has been zero for longer than a part would be that is trained in turn with others."""
        if len(zero) > len(self._alive):
            new = np.zeros(len(zero) - len(self._alive), np.int64)
            self._alive, self._streak, self._longest = (
                np.append(counts, new) for counts in (self._alive, self._streak, self._longest)
            )
        self._alive[alive] += 1
        self._streak[zero] += 1
        self._longest[alive] = np.maximum(self._longest, self._streak)[alive]
        self._streak[alive] = 0
        return self._streak > np.maximum(np.minimum(self._alive, LONGEST_TURN), 2 * self._longest)
