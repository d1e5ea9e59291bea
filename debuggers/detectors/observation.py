"""The input of detectors at one step: statistics of many tensors, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Statistics of one step.

    Row i has the same name at every step that one detector sees; later steps may add rows, never remove any.

    Attributes:
        step: The training step.
        names: The names of the rows; the first n are used.
        present: bool (n,): whether the row was measured at this step.
        values: float64 (n,) by statistic; NaN in rows that were not measured or for which it is not defined.
        expected_overflow: Whether infinities are normal at this step, because a ``GradScaler`` skips it.
    """

    step: int
    names: Sequence[str]
    present: Bools
    values: Mapping[str, Floats]
    expected_overflow: bool = False
