"""The summaries of many tensors of one moment, as columns: statistics of all of them cost one NumPy operation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, overload

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns, groups_of
from tracker_adapters.histograms.layout import MOMENTS, TALLIES

from debuggers.measurement.tensor_summary import TensorSummary

Floats = npt.NDArray[np.float64]
_TALLY = {name: index for index, name in enumerate(TALLIES)}
_MOMENT = {name: index for index, name in enumerate(MOMENTS)}


@dataclass(frozen=True, eq=False)
class SummaryTable(Sequence[TensorSummary]):
    """Summaries of n tensors, in their order; ``table[i]`` is one as an object.

    What is computed of them is kept: several readers of a step ask for the same. Nobody changes an array of a table.

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
        return cls(
            HistogramColumns.of(rows),
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
        return cls(
            HistogramColumns.joined([table.columns for table in tables]),
            negative=np.concatenate([table.negative for table in tables]),
            positive=np.concatenate([table.positive for table in tables]),
            l1=np.concatenate([table.l1 for table in tables]),
            local_shard=np.concatenate([table.local_shard for table in tables]),
        )

    def select(self, rows: npt.ArrayLike) -> SummaryTable:
        """Returns a table of some rows, in the order given; ``rows`` are integers from 0 to n - 1."""
        chosen = np.asarray(rows, np.int64)
        return SummaryTable(
            self.columns.take(chosen),
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
        groups = np.asarray(keys, np.int64)
        order, starts = groups_of(groups)
        with np.errstate(over="ignore"):
            l1 = np.add.reduceat(self.l1[order], starts)
        return SummaryTable(
            self.columns.merged(groups),
            negative=np.add.reduceat(self.negative[order], starts),
            positive=np.add.reduceat(self.positive[order], starts),
            l1=l1,
            local_shard=np.logical_or.reduceat(self.local_shard[order], starts),
        )

    def merge(self, other: SummaryTable) -> SummaryTable:
        """Returns row by row the summary of both tensors together, as ``TensorSummary.merge`` does.

        Raises:
            ValueError: If the tables differ in length.
        """
        if len(self) != len(other):
            raise ValueError(f"a table of {len(other)} tensors was given to merge; expected {len(self)}")
        return self.concatenate([self, other]).grouped(np.tile(np.arange(len(self)), 2))

    def scaled(self, exponent: int) -> SummaryTable:
        """Returns the table of the tensors times ``2**exponent``; see ``HistogramColumns.scaled``, l1 being exact."""
        with np.errstate(over="ignore"):
            l1 = np.ldexp(self.l1, exponent)
        return replace(self, columns=self.columns.scaled(exponent), l1=l1)

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
        return TensorSummary(
            negative=int(self.negative[row]),
            positive=int(self.positive[row]),
            l1=float(self.l1[row]),
            local_shard=bool(self.local_shard[row]),
            **self.columns.fields(row),
        )

    def tally(self, name: str) -> npt.NDArray[np.int64]:
        """Returns a count of every tensor by its name in ``TALLIES``."""
        return self.columns.tallies[:, _TALLY[name]]

    def moment(self, name: str) -> Floats:
        """Returns ``min``, ``max``, ``mean`` or ``m2`` of every tensor; see ``TensorSummary`` for NaN."""
        return self.columns.moments[:, _MOMENT[name]]

    @cached_property
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
        return self.columns.stds

    @cached_property
    def l2(self) -> Floats:
        """Euclidean norms of the finite elements; 0 where there is none."""
        n = self.finite_count
        with np.errstate(invalid="ignore", over="ignore"):
            norms = np.hypot(np.sqrt(self.moment("m2")), np.sqrt(n) * self.moment("mean"))
        return np.where(n > 0, norms, 0.0)

    @cached_property
    def total_l2(self) -> float:
        """The Euclidean norm of the finite elements of all tensors."""
        return math.sqrt(self.l2.dot(self.l2))

    @property
    def norms(self) -> Floats:
        """Euclidean norms; NaN where an element is NaN or infinite: what the others leave would look sound."""
        return np.where(self.non_finite == 0, self.l2, np.nan)

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
