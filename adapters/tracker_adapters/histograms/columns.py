"""Many histograms of one step as columns: the result of measuring many tensors, and the input of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.contiguous_bins import contiguous_bins, first_edge, merged_bins, middles_at
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.histograms.layout import M2, MAX, MIN, MOMENTS, TALLIES, Summary
from tracker_adapters.histograms.merging import merge_bins
from tracker_adapters.histograms.moments import fold_moments
from tracker_adapters.histograms.scaling import scale_bins

AT_ONCE = 48
"""Histograms to work on at once: arrays of all their bins stay below 128 kB, where malloc would begin to take memory
from the system and give it back each time, which makes NumPy three times slower (glibc 2.36, 250 bins each)."""


@dataclass(frozen=True, eq=False)
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

    @classmethod
    def of(cls, histograms: Sequence[Summary]) -> Self:
        """Returns the columns of histograms, in their order."""
        tallies = [[getattr(one, key) for key in TALLIES] for one in histograms]
        moments = [[getattr(one, key) for key in MOMENTS] for one in histograms]
        return cls(
            tallies=np.array(tallies, np.int64).reshape(-1, len(TALLIES)),
            moments=np.array(moments, np.float64).reshape(-1, len(MOMENTS)),
            ends=np.cumsum([len(one.bins) for one in histograms], dtype=np.int64),
            bins=np.concatenate([np.empty(0, np.uint16), *(one.bins for one in histograms)]),
            counts=np.concatenate([np.empty(0, np.int64), *(one.counts for one in histograms)]),
        )

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """What the columns take in memory."""
        return sum(column.nbytes for column in (self.tallies, self.moments, self.ends, self.bins, self.counts))

    def bounds(self, row: int) -> tuple[int, int]:
        """Where the bins of a row start and end."""
        return (int(self.ends[row - 1]) if row else 0), int(self.ends[row])

    def rows(self, start: int, stop: int) -> HistogramColumns:
        """Returns some of the histograms, sharing memory."""
        first = int(self.ends[start - 1]) if start else 0
        bins = slice(first, int(self.ends[stop - 1]) if stop else 0)
        return HistogramColumns(
            self.tallies[start:stop],
            self.moments[start:stop],
            self.ends[start:stop] - first,
            self.bins[bins],
            self.counts[bins],
        )

    def parts(self) -> Iterator[HistogramColumns]:
        """Yields all of them in turn, few enough for fast work: see ``AT_ONCE``."""
        for start in range(0, len(self), AT_ONCE):
            yield self.rows(start, min(start + AT_ONCE, len(self)))

    @classmethod
    def joined(cls, parts: Sequence[HistogramColumns]) -> HistogramColumns:
        """Returns the histograms of at least one column set, one after the other."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(part.bins.size for part in parts[:-1])])
        return cls(
            np.concatenate([part.tallies for part in parts]),
            np.concatenate([part.moments for part in parts]),
            np.concatenate([part.ends + offset for part, offset in zip(parts, offsets, strict=True)]),
            np.concatenate([part.bins for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    def take(self, rows: npt.NDArray[np.int64]) -> HistogramColumns:
        """Returns the histograms of ``rows`` (int64) in that order."""
        lengths = np.diff(self.ends, prepend=0)[rows]
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(self.ends[rows] - ends, lengths)
        return HistogramColumns(self.tallies[rows], self.moments[rows], ends, self.bins[places], self.counts[places])

    def merged(self, groups: npt.NDArray[np.int64]) -> HistogramColumns:
        """Returns one histogram for each group, by ascending group.

        Counts, min and max are exact. Mean and m2 are joined in the order of the rows, as ``Histogram.merge`` does:
        merging some rows first and the rest later gives the same bits.

        Args:
            groups: int64 (n,): which group each belongs to; any numbers, in any order.
        """
        order, starts = groups_of(groups)
        if len(starts) == len(self):
            return self if (order[1:] > order[:-1]).all() else self.take(order)
        ends, bins, counts = merge_bins(order, starts, self.ends, self.bins, self.counts)
        return HistogramColumns(
            tallies=np.add.reduceat(self.tallies[order], starts, axis=0),
            moments=fold_moments(self.moments[order], self.finite_counts[order], starts),
            ends=ends,
            bins=bins,
            counts=counts,
        )

    def scaled(self, exponent: int) -> HistogramColumns:
        """Returns the histograms of the arrays times ``2**exponent``: as if they were multiplied in float64.

        Everything is exact while elements and results are zero, or normal in float32, and float64 holds the results;
        what leaves float32 becomes overflow or underflow, exactly above, and below but for a tie at ``2**-150``.
        Subnormal bins are wider than an eighth of a power of two: from them, all elements go where the middle of the
        bin does; into them, an element may round up to the next bin. Elements that overflowed or underflowed before
        stay so, for no bin knows them. The moments have no such limits.
        """
        tallies, ends, bins, counts = scale_bins(self.tallies, self.ends, self.bins, self.counts, exponent)
        with np.errstate(over="ignore"):
            moments = np.ldexp(self.moments, np.array([exponent, exponent, exponent, 2 * exponent], np.int32))
        return HistogramColumns(tallies, moments, ends, bins, counts)

    def fields(self, row: int) -> dict[str, Any]:
        """Returns tallies, moments, bins and counts of one of them by name, with arrays of its own."""
        start, end = self.bounds(row)
        found: dict[str, Any] = dict(zip(TALLIES, self.tallies[row].tolist(), strict=True))
        found |= zip(MOMENTS, self.moments[row].tolist(), strict=True)
        return found | {"bins": self.bins[start:end].copy(), "counts": self.counts[start:end].copy()}

    def histogram(self, row: int, name: str, *, step: int, time_ns: int) -> Histogram:
        """Returns one of them as an artifact; what ``fault_in`` looks for is not looked for."""
        return Histogram.unchecked(name=name, step=step, time_ns=time_ns, **self.fields(row))

    @cached_property
    def finite_counts(self) -> npt.NDArray[np.int64]:
        """Elements of each that are neither NaN nor infinite; int64 (n,)."""
        finite: npt.NDArray[np.int64] = self.tallies[:, 0] - self.tallies[:, 1:4].sum(axis=1)
        return finite

    @property
    def stds(self) -> npt.NDArray[np.float64]:
        """Population standard deviations of the finite elements; float64 (n,), NaN where there is none."""
        finite = self.finite_counts
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(finite > 0, np.sqrt(self.moments[:, M2] / finite), np.nan)

    def intervals(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Returns the finite elements of each as adjoining intervals, as ``Histogram.edges`` does for one.

        Returns:
            ``(ends, rights, counts)``: where the intervals of each histogram end, and each one's right edge and
            elements. The first interval of each begins at its smallest finite element.
        """
        zero, pos_overflow, neg_overflow, pos_underflow, neg_underflow = self.tallies.T[4:]
        return contiguous_bins(
            self.bins,
            self.counts,
            self.ends,
            around_zero=zero + pos_underflow + neg_underflow,
            neg_overflow=neg_overflow,
            pos_overflow=pos_overflow,
            high=self.moments[:, MAX],
        )

    def intervals_by_row(
        self, max_bins: int | None = None
    ) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]:
        """Yields what ``intervals`` gives for each: right edges (n,) and counts (n,), both empty where none is finite.

        Args:
            max_bins: Merge neighbouring intervals until at most this many are left; at least 1.
        """
        for part in self.parts():
            ends, rights, counts = part.intervals()
            start = 0
            for end in ends.tolist():
                row = rights[start:end], counts[start:end]
                yield row if max_bins is None else merged_bins(*row, max_bins)
                start = end

    def shapes(self, max_bins: int | None = None) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]:
        """Yields what ``Histogram.edges`` gives for each: edges (n + 1,) and counts (n,), or both empty.

        Args:
            max_bins: Merge neighbouring bins until at most this many are left; at least 1.
        """
        lows = self.moments[:, MIN].tolist()
        for low, (rights, counts) in zip(lows, self.intervals_by_row(max_bins), strict=True):
            first = [first_edge(low, rights)] if rights.size else []
            yield np.concatenate([first, rights]), counts

    def shapes_and_percentiles(
        self, max_bins: int | None, q: Sequence[float]
    ) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
        """Yields edges and counts of each as ``shapes`` does, and its percentiles as ``Histogram.percentile`` does.

        The percentiles (len(q),) are those of all bins, NaN where nothing is finite.

        Args:
            max_bins: Of the edges and counts; see ``shapes``.
            q: Numbers above 0 and below 100.
        """
        ranks = np.outer(self.finite_counts - 1, np.asarray(q) / 100)
        for (edges, counts), row_ranks, (low, high) in zip(
            self.shapes(), ranks, self.moments[:, :2].tolist(), strict=True
        ):
            if not counts.size:
                yield edges, counts, np.full(len(q), np.nan)
                continue
            found = middles_at(edges, counts, row_ranks, low=low, high=high)
            if max_bins is None:
                yield edges, counts, found
                continue
            rights, merged = merged_bins(edges[1:], counts, max_bins)
            yield np.concatenate([[first_edge(low, rights)], rights]), merged, found


def groups_of(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the rows by ascending key, rows of one key in their order, and where each key begins among them."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)])
