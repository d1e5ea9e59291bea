"""Many histograms of one moment as columns: what measuring many tensors gives, and what a store takes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracker_adapters.histogram import Histogram

TALLIES = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
MOMENTS = ("min", "max", "mean", "m2")


@dataclass(frozen=True, slots=True, eq=False)
class HistogramColumns:
    """Histograms of n arrays; row i of each column belongs to array i, and the fields mean what ``Histogram``'s do.

    The arrays are taken as they are: whoever makes the columns gives them away and changes them no more.

    Attributes:
        tallies: int64 (n, 9), in the order of ``TALLIES``.
        moments: float64 (n, 4), in the order of ``MOMENTS``.
        ends: int64 (n,): where the bins of each end in ``bins`` and ``counts``; ascending.
        bins: uint16 (ends[-1],): the occupied bins of each, ascending.
        counts: int64 (ends[-1],): elements in each of them, at least 1.
    """

    tallies: npt.NDArray[np.int64]
    moments: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int64]
    bins: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """What the columns take in memory."""
        return sum(column.nbytes for column in (self.tallies, self.moments, self.ends, self.bins, self.counts))

    def bounds(self, row: int) -> tuple[int, int]:
        """Where the bins of a row start and end."""
        return (int(self.ends[row - 1]) if row else 0), int(self.ends[row])

    def histogram(self, row: int, name: str, *, step: int, time_ns: int) -> Histogram:
        """Returns one of them as an artifact."""
        start, end = self.bounds(row)
        return Histogram(
            name=name,
            step=step,
            time_ns=time_ns,
            bins=self.bins[start:end],
            counts=self.counts[start:end],
            **dict(zip(TALLIES, self.tallies[row].tolist(), strict=True)),
            **dict(zip(MOMENTS, self.moments[row].tolist(), strict=True)),
        )
