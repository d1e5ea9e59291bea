"""Gradients that are zero everywhere: layers without influence on the loss."""

import numpy as np
import numpy.typing as npt

from debuggers.detectors.alike_parts import AlikeParts
from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Observation

Counts = npt.NDArray[np.int64]

LONGEST_TURN = 100
"""The most observed steps for which a gradient that was non-zero may at first be zero."""


class ZeroGradient(Detector):
    """All elements of a gradient are zero at three observed steps in a row, or at more if it was non-zero before.

    Causes are dead units, a branch without influence on the loss, or a product of small factors that underflowed.
    One such step is normal: a layer behind weights that start at zero gets no gradient at first. Parts of a model may
    be trained in turn. So a gradient that was non-zero must first be zero for as many steps as it was non-zero (at
    most 100), and for twice its longest period of zeros so far. A bias is ignored while another parameter of its
    module gets gradient: if the loss is a difference of outputs, as of a critic, the last layer's bias cancels out.
    One of several alike parts is ignored while others have a gradient and so has what comes before them: of the experts
    of a mixture a batch may choose some.
    """

    kind = "zero_gradient"
    level = "warning"
    statistics = frozenset({"zero_fraction"})
    judged = "zero_fraction"
    rule = (
        "zeros = 100 % (AllZero of SageMaker Debugger), at 3 observed steps in a row; if it was non-zero before, after "
        "as many zero steps as non-zero ones (at most 100), and twice its longest run of zeros; not in one of several "
        "alike parts while others are alive"
    )
    evidence = "the gradient is zero everywhere"
    consecutive_steps = 3
    worst = np.fmax

    def __init__(self) -> None:
        super().__init__()
        self._modules, self._alike = ModuleParts(), AlikeParts()
        self._alive: Counts = np.empty(0, np.int64)
        self._streak: Counts = np.empty(0, np.int64)
        self._longest: Counts = np.empty(0, np.int64)
        self._has_zeros = False  # whether any streak is above 0

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        zeros = observation.values["zero_fraction"]
        if zeros.size and zeros.max() < 1:
            self._see_alive(len(zeros))
            return np.zeros(len(zeros), np.bool_), 1.0
        broken = zeros == 1
        if broken.any():
            broken &= ~self._modules.idle_biases(observation, zeros < 1)
        if broken.any():
            broken &= ~self._alike.unchosen(observation, zeros < 1)
        return broken & self._exceeds_alternation(zeros == 1, zeros < 1), 1.0

    def _see_alive(self, rows: int) -> None:
        """Does what ``_exceeds_alternation`` does where all rows are alive, which is the rule."""
        self._grow(rows)
        self._alive += 1
        if self._has_zeros:
            self._longest = np.maximum(self._longest, self._streak)
            self._streak[:] = 0
            self._has_zeros = False

    def _grow(self, rows: int) -> None:
        if rows > len(self._alive):
            new = np.zeros(rows - len(self._alive), np.int64)
            self._alive, self._streak, self._longest = (
                np.append(counts, new) for counts in (self._alive, self._streak, self._longest)
            )

    def _exceeds_alternation(self, zero: Bools, alive: Bools) -> Bools:
        """Whether a gradient has been zero for longer than if parts of the model are trained in turn."""
        self._grow(len(zero))
        self._has_zeros = True
        self._alive[alive] += 1
        self._streak[zero] += 1
        self._longest[alive] = np.maximum(self._longest, self._streak)[alive]
        self._streak[alive] = 0
        return self._streak > np.maximum(np.minimum(self._alive, LONGEST_TURN), 2 * self._longest)
