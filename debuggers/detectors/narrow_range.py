"""What a narrow dtype would flush to zero or saturate, from histograms of exponents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import SIGN_BIN, TALLIES, left_edges

from debuggers.detectors.detector import Detector
from debuggers.detectors.observation import Bools, Floats, Observation

LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class NarrowDtype:
    """The range of a dtype.

    Attributes:
        flushed_below: Half of its smallest subnormal: what is below rounds to zero.
        saturated_from: The first edge of a bin from which on values round above its largest number.
    """

    flushed_below: float
    saturated_from: float


NARROW_DTYPES: Final[Mapping[str, NarrowDtype]] = {
    "float16": NarrowDtype(2.0**-25, 2.0**16),
    "bfloat16": NarrowDtype(2.0**-134, 2.0**128),
    "float8_e4m3fn": NarrowDtype(2.0**-10, 480.0),
    "float8_e5m2": NarrowDtype(2.0**-17, 1.875 * 2.0**15),
}
"""By torch's names. A histogram has eight bins for each power of two, so that every limit but two is an edge of a bin:
float16 saturates from 65,520 on, and float8_e4m3fn from 464 on; the next edges are 65,536 and 480. bfloat16 has the
range of float32 but for its smallest subnormals."""


def shares_outside(columns: HistogramColumns, dtype: str, *, scale: float = 1.0) -> tuple[Floats, Floats]:
    """Returns which share of each tensor's non-zero finite values a dtype would flush, and which it would saturate.

    Shares are lower bounds: within the bin that a limit divides, no value counts. NaN where a tensor has no such value.

    Args:
        columns: Histograms of n tensors.
        dtype: A name of ``NARROW_DTYPES``.
        scale: What the values are multiplied with before they are rounded: that of a GradScaler.

    Returns:
        Two float64 (n,), from 0 to 1.

    Raises:
        ValueError: For another dtype, or a scale that is not positive and finite.
    """
    if dtype not in NARROW_DTYPES:
        raise ValueError(f"dtype is {dtype!r}; expected one of {', '.join(NARROW_DTYPES)}")
    if not 0 < scale < np.inf:
        raise ValueError(f"scale is {scale!r}; expected a positive number")
    narrow = NARROW_DTYPES[dtype]
    magnitudes = columns.bins.astype(np.int64) % SIGN_BIN
    flushed = left_edges(magnitudes + 1) * scale <= narrow.flushed_below
    saturated = left_edges(magnitudes) * scale >= narrow.saturated_from
    tally = dict(zip(TALLIES, columns.tallies.T, strict=True))
    beyond = tally["pos_overflow"] + tally["neg_overflow"]
    below = tally["pos_underflow"] + tally["neg_underflow"]
    non_zero = columns.finite_counts - tally["zero"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (
            np.where(non_zero > 0, (_sums(columns, flushed) + below) / non_zero, np.nan),
            np.where(non_zero > 0, (_sums(columns, saturated) + beyond) / non_zero, np.nan),
        )


def _sums(columns: HistogramColumns, chosen: Bools) -> npt.NDArray[np.int64]:
    """Elements of each histogram in the chosen bins."""
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(chosen, columns.counts, 0))])
    starts = np.concatenate([np.zeros(1, np.int64), columns.ends[:-1]]) if len(columns) else columns.ends
    sums: npt.NDArray[np.int64] = totals[columns.ends] - totals[starts]
    return sums


class Underflow(Detector):
    """A dtype would flush more than 5 % of a tensor's non-zero values to zero, at 5 observed steps in a row.

    The limit is stepscope's own, of the size that Micikevicius et al. 2018 saw for weight gradients of a speech model.
    Only for tensors that are computed in that dtype: see ``shares_outside``.
    """

    kind = "underflow"
    level = "warning"
    statistics = frozenset({"underflow"})
    judged = "underflow"
    rule = "non-zero values below half of the dtype's smallest > 5 %, at 5 observed steps in a row (stepscope's choice)"
    evidence = "{value:.1%} of the non-zero values round to zero, more than {threshold:.0%}"
    consecutive_steps = 5
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["underflow"] > LIMIT, LIMIT


class Overflow(Detector):
    """A dtype would saturate some of a tensor's values, at 5 observed steps in a row.

    One value is enough, because it makes the tensor infinite. Five, because a GradScaler looks for its scale by
    overflowing.
    """

    kind = "overflow"
    level = "warning"
    statistics = frozenset({"overflow"})
    judged = "overflow"
    rule = "any finite value above the dtype's largest, at 5 observed steps in a row (stepscope's choice)"
    evidence = "{value:.2%} of the non-zero values are above the largest finite number, more than {threshold:.0%}"
    consecutive_steps = 5
    worst = np.fmax

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        return observation.values["overflow"] > 0, 0.0
