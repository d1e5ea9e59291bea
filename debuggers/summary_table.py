"""The summaries of many tensors of one moment, as columns: statistics of all of them cost one NumPy operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
from tracker_adapters.histogram_columns import MOMENTS, TALLIES, HistogramColumns

from debuggers.tensor_summary import TensorSummary

Floats = npt.NDArray[np.float64]
_TALLY = {name: index for index, name in enumerate(TALLIES)}
_MOMENT = {name: index for index, name in enumerate(MOMENTS)}


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTable(Sequence[TensorSummary]):
    """Summaries of n tensors, in their order; ``table[i]`` is one as an object.

    Attributes:
        columns: Histograms, counts, extremes and moments; see ``HistogramColumns``.
        negative: int64 (n,): finite elements below zero; ``positive`` above it.
        l1: float64 (n,): sums of absolute values.
        local_shard: bool (n,): whether only this rank's shard was measured.
    """

    columns: HistogramColumns
    negative: npt.NDArray[np.int64]
    positive: npt.NDArray[np.int64]
    l1: Floats
    local_shard: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, summaries: Iterable[TensorSummary]) -> Self:
        """Returns the table of summaries."""
        rows = list(summaries)
        sizes = [len(row.bins) for row in rows]
        columns = HistogramColumns(
            tallies=np.array([[getattr(row, key) for key in TALLIES] for row in rows], np.int64).reshape(
                -1, len(TALLIES)
            ),
            moments=np.array([[getattr(row, key) for key in MOMENTS] for row in rows], np.float64).reshape(
                -1, len(MOMENTS)
            ),
            ends=np.cumsum(sizes, dtype=np.int64),
            bins=np.concatenate([np.empty(0, np.uint16), *(row.bins for row in rows)]),
            counts=np.concatenate([np.empty(0, np.int64), *(row.counts for row in rows)]),
        )
        return cls(
            columns,
            negative=np.array([row.negative for row in rows], np.int64),
            positive=np.array([row.positive for row in rows], np.int64),
            l1=np.array([row.l1 for row in rows], np.float64),
            local_shard=np.array([row.local_shard for row in rows], np.bool_),
        )

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> TensorSummary: ...
    @overload
    def __getitem__(self, index: slice) -> list[TensorSummary]: ...
    def __getitem__(self, index: int | slice) -> TensorSummary | list[TensorSummary]:
        """Returns one summary, or a list of those in a slice; what they hold are copies."""
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        start, end = self.columns.bounds(row)
        values: dict[str, Any] = dict(zip(TALLIES, self.columns.tallies[row].tolist(), strict=True))
        values |= zip(MOMENTS, self.columns.moments[row].tolist(), strict=True)
        return TensorSummary(
            negative=int(self.negative[row]),
            positive=int(self.positive[row]),
            l1=float(self.l1[row]),
            bins=self.columns.bins[start:end].copy(),
            counts=self.columns.counts[start:end].copy(),
            local_shard=bool(self.local_shard[row]),
            **values,
        )

    def tally(self, name: str) -> npt.NDArray[np.int64]:
        """Returns a count of every tensor by its name in ``TALLIES``."""
        return self.columns.tallies[:, _TALLY[name]]

    def moment(self, name: str) -> Floats:
        """Returns ``min``, ``max``, ``mean`` or ``m2`` of every tensor; see ``TensorSummary`` for NaN."""
        return self.columns.moments[:, _MOMENT[name]]

    @property
    def non_finite(self) -> npt.NDArray[np.int64]:
        """Elements that are NaN or infinite."""
        return self.tally("nan") + self.tally("pos_inf") + self.tally("neg_inf")

    @property
    def finite_count(self) -> npt.NDArray[np.int64]:
        """Elements that are neither."""
        return self.tally("count") - self.non_finite

    @property
    def std(self) -> Floats:
        """Population standard deviations of the finite elements; NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.moment("m2") / self.finite_count)

    @property
    def l2(self) -> Floats:
        """Euclidean norms of the finite elements; 0 where there is none."""
        n = self.finite_count
        with np.errstate(invalid="ignore", over="ignore"):
            norms = np.hypot(np.sqrt(self.moment("m2")), np.sqrt(n) * self.moment("mean"))
        return np.where(n > 0, norms, 0.0)

    @property
    def mean_magnitude(self) -> Floats:
        """Means of the absolute values of the finite elements; NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.finite_count > 0, self.l1 / self.finite_count, np.nan)

    @property
    def largest_magnitude(self) -> Floats:
        """Largest absolute values of the finite elements; NaN where there is none."""
        return np.maximum(np.abs(self.moment("min")), np.abs(self.moment("max")))

    @property
    def zero_fraction(self) -> Floats:
        """Shares of zeros among all elements; NaN for empty tensors."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.tally("count") > 0, self.tally("zero") / self.tally("count"), np.nan)
