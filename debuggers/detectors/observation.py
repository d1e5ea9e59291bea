"""The input of detectors at one step: statistics of many tensors, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Statistics of one step.

    Row i is the same name at every step that one detector sees; later steps may bring more rows, never fewer.

    Attributes:
        step: The training step.
        names: The names of the rows, of which the first n count.
        present: bool (n,): whether the row was measured at this step.
        values: float64 (n,) by statistic; NaN in rows that were not measured, and where the statistic has no value.
        expected_overflow: Whether infinities are normal at this step, as those that make a ``GradScaler`` skip it.
    """

    step: int
    names: Sequence[str]
    present: Bools
    values: Mapping[str, Floats]
    expected_overflow: bool = False
