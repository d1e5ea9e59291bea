"""The summaries of many tensors of one moment, as columns: statistics of all of them cost one NumPy operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import MOMENTS, TALLIES, HistogramColumns

from debuggers.measurement.column_merging import merge_columns
from debuggers.measurement.column_scaling import scale_columns
from debuggers.measurement.tensor_summary import TensorSummary

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

    @classmethod
    def concatenate(cls, tables: Sequence[SummaryTable]) -> Self:
        """Returns one table with the rows of all tables, in order."""
        if not tables:
            return cls.of(())
        columns = [table.columns for table in tables]
        starts = np.cumsum([0, *(len(part.bins) for part in columns[:-1])])
        return cls(
            HistogramColumns(
                tallies=np.concatenate([part.tallies for part in columns]),
                moments=np.concatenate([part.moments for part in columns]),
                ends=np.concatenate([part.ends + start for part, start in zip(columns, starts, strict=True)]),
                bins=np.concatenate([part.bins for part in columns]),
                counts=np.concatenate([part.counts for part in columns]),
            ),
            negative=np.concatenate([table.negative for table in tables]),
            positive=np.concatenate([table.positive for table in tables]),
            l1=np.concatenate([table.l1 for table in tables]),
            local_shard=np.concatenate([table.local_shard for table in tables]),
        )

    def select(self, rows: npt.ArrayLike) -> SummaryTable:
        """Returns a table of some rows, in the order given; ``rows`` are integers from 0 to n - 1."""
        chosen = np.asarray(rows, np.int64)
        columns = self.columns
        sizes = np.diff(columns.ends, prepend=0)[chosen]
        ends = np.cumsum(sizes)
        entries = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(columns.ends[chosen] - ends, sizes)
        return SummaryTable(
            HistogramColumns(
                columns.tallies[chosen], columns.moments[chosen], ends, columns.bins[entries], columns.counts[entries]
            ),
            negative=self.negative[chosen],
            positive=self.positive[chosen],
            l1=self.l1[chosen],
            local_shard=self.local_shard[chosen],
        )

    def grouped(self, keys: npt.ArrayLike) -> SummaryTable:
        """Returns a table with one row for each distinct key, ascending: the rows of one key are merged.

        Args:
            keys: An integer for each row.
        """
        ordered = np.asarray(keys, np.int64)
        order = np.argsort(ordered, kind="stable")
        ordered = ordered[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        sizes = np.diff(starts, append=len(order))
        table = self.select(order[starts])
        for turn in range(1, int(sizes.max(initial=0))):
            groups = np.flatnonzero(sizes > turn)
            merged = table.select(groups).merge(self.select(order[starts[groups] + turn]))
            places = np.arange(len(table))
            places[groups] = len(table) + np.arange(len(groups))
            table = SummaryTable.concatenate([table, merged]).select(places)
        return table

    def merge(self, other: SummaryTable) -> SummaryTable:
        """Returns row by row the summary of both tensors together, as ``TensorSummary.merge`` does.

        Raises:
            ValueError: If the tables differ in length.
        """
        if len(self) != len(other):
            raise ValueError(f"a table of {len(other)} tensors was given to merge; expected {len(self)}")
        with np.errstate(over="ignore"):
            l1 = self.l1 + other.l1
        return SummaryTable(
            merge_columns(self.columns, other.columns),
            negative=self.negative + other.negative,
            positive=self.positive + other.positive,
            l1=l1,
            local_shard=self.local_shard | other.local_shard,
        )

    def scaled(self, exponent: int) -> SummaryTable:
        """Returns the table of the tensors times ``2**exponent``: as if they were multiplied in float64.

        Everything is exact while elements and results are zero, or normal in float32, and float64 holds the results;
        what leaves float32 becomes overflow or underflow, exactly above, and below but for a tie at ``2**-150``.
        Subnormal bins are wider than an eighth of a power of two: from them, all elements go where the middle of the
        bin does; into them, an element may round up to the next bin. Elements that overflowed or underflowed before
        stay so, for no bin knows them. l1 and the moments have no such limits.
        """
        with np.errstate(over="ignore"):
            l1 = np.ldexp(self.l1, exponent)
        return replace(self, columns=scale_columns(self.columns, exponent), l1=l1)

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
        return self.columns.finite_counts

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
