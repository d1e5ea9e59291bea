"""What every histogram is made of: its fixed bins, and what is counted and computed beside them."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

N_BINS = 4096
SIGN_BIN = N_BINS // 2
"""The first bin of negative values; bin ``SIGN_BIN + b`` holds what bin b holds, with the other sign."""
OVERFLOW_BIN = 2040
"""The first magnitude bin that no finite float32 has: it begins at 2**128."""
SHIFT = 20
"""From the bits of a float32 to its bin: of 23 mantissa bits the top 3 belong to the bin."""
_BINS_PER_POWER_OF_TWO = 8

TALLIES = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
MOMENTS = ("min", "max", "mean", "m2")
MIN, MAX, MEAN, M2 = range(len(MOMENTS))


class Summary(Protocol):
    """What has bins, and attributes named as in ``TALLIES`` and ``MOMENTS``: a histogram, or statistics with one."""

    @property
    def bins(self) -> npt.NDArray[np.uint16]:
        """Occupied bins, ascending."""

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Elements in each of them."""

    @property
    def finite_count(self) -> int:
        """Elements that are neither NaN nor infinite."""


def left_edges(magnitudes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Returns the smallest magnitude of bins without their sign, 0 to ``SIGN_BIN + 1``; that of 2040 is 2**128."""
    exponent, eighth = np.divmod(magnitudes, _BINS_PER_POWER_OF_TWO)
    share = eighth / _BINS_PER_POWER_OF_TWO
    return np.where(exponent == 0, np.ldexp(share, -126), np.ldexp(1 + share, exponent - 127))
