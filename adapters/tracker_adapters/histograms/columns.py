"""Many histograms of one moment as columns: what measuring many tensors gives, and what a store takes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.contiguous_bins import contiguous_bins, first_edge, merged_bins, middles_at
from tracker_adapters.histograms.histogram import N_BINS, Histogram

TALLIES = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
MOMENTS = ("min", "max", "mean", "m2")
_DTYPES = {"tallies": np.int64, "moments": np.float64, "ends": np.int64, "bins": np.uint16, "counts": np.int64}


AT_ONCE = 48
"""Histograms to work on at once: arrays of all their bins stay below 128 kB, where malloc would begin to take memory
from the system and give it back each time, which makes NumPy three times slower (glibc 2.36, 250 bins each)."""


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

    @classmethod
    def of(cls, histograms: Sequence[Histogram]) -> Self:
        """Returns the columns of histograms, in their order."""
        return cls(
            tallies=np.array([[getattr(one, key) for key in TALLIES] for one in histograms], np.int64).reshape(
                -1, len(TALLIES)
            ),
            moments=np.array([[getattr(one, key) for key in MOMENTS] for one in histograms], np.float64).reshape(
                -1, len(MOMENTS)
            ),
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

    def histogram(self, row: int, name: str, *, step: int, time_ns: int) -> Histogram:
        """Returns one of them as an artifact, with arrays of its own; what ``fault`` looks for is not looked for."""
        start, end = self.bounds(row)
        fields: dict[str, Any] = dict(zip(TALLIES, self.tallies[row].tolist(), strict=True))
        fields.update(zip(MOMENTS, self.moments[row].tolist(), strict=True))
        return Histogram.unchecked(
            name=name,
            step=step,
            time_ns=time_ns,
            bins=self.bins[start:end].copy(),
            counts=self.counts[start:end].copy(),
            **fields,
        )

    @property
    def finite_counts(self) -> npt.NDArray[np.int64]:
        """Elements of each that are neither NaN nor infinite; int64 (n,)."""
        finite: npt.NDArray[np.int64] = self.tallies[:, 0] - self.tallies[:, 1:4].sum(axis=1)
        return finite

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
            high=self.moments[:, MOMENTS.index("max")],
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
        lows = self.moments[:, MOMENTS.index("min")].tolist()
        for low, (rights, counts) in zip(lows, self.intervals_by_row(max_bins), strict=True):
            first = [first_edge(low, rights)] if rights.size else []
            yield np.concatenate([first, rights]), counts

    def shapes_and_percentiles(
        self, max_bins: int, q: Sequence[float]
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
            rights, merged = merged_bins(edges[1:], counts, max_bins)
            yield np.concatenate([[first_edge(low, rights)], rights]), merged, found

    def fault(self) -> tuple[int, str] | None:
        """Returns the first row that is no histogram and what is wrong with it, or None when all is well.

        Row -1 stands for a fault of the columns themselves: a dtype, a shape, or ends that do not ascend.
        """
        fault = self._fault_of_form()
        if fault is not None:
            return -1, fault
        if not len(self):
            return None
        if self.bins.size:
            if int(self.bins.max()) >= N_BINS:
                return self._at(self.bins >= N_BINS, f"bins must be below {N_BINS}")
            falls = np.flatnonzero(self.bins[1:] <= self.bins[:-1]) + 1
            inside = falls[self.ends[np.searchsorted(self.ends, falls)] != falls]
            if inside.size:
                return self._row_of(inside[0]), "bins must be ascending and distinct"
            if int(self.counts.min()) < 1:
                return self._at(self.counts < 1, "counts must be at least 1")
        if int(self.tallies.min()) < 0:
            return int(np.flatnonzero((self.tallies < 0).any(axis=1))[0]), "counts must not be negative"
        held = self.tallies[:, 4:].sum(axis=1)
        starts = np.concatenate([[0], self.ends[:-1]])
        filled = starts < self.ends
        if self.counts.size:
            held[filled] += np.add.reduceat(self.counts, starts[filled])
        expected = self.finite_counts
        wrong = np.flatnonzero(held != expected)
        if wrong.size:
            row = int(wrong[0])
            return row, (
                f"bins and zeros hold {held[row]} elements; expected count minus non-finite ones, {expected[row]}"
            )
        return None

    def _fault_of_form(self) -> str | None:
        for name, dtype in _DTYPES.items():
            column = getattr(self, name)
            if not isinstance(column, np.ndarray) or column.dtype != dtype:
                found = column.dtype if isinstance(column, np.ndarray) else type(column).__name__
                return f"{name} are {found}; expected an array of {np.dtype(dtype)}"
        n = self.ends.size
        if self.ends.ndim != 1 or (n and (int(self.ends[0]) < 0 or (self.ends[1:] < self.ends[:-1]).any())):
            return "ends must be one-dimensional and ascending"
        last = int(self.ends[-1]) if n else 0
        shapes = {"tallies": (n, len(TALLIES)), "moments": (n, len(MOMENTS)), "bins": (last,), "counts": (last,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                return f"{name} have shape {getattr(self, name).shape}; expected {shape}"
        return None

    def _at(self, wrong: npt.NDArray[np.bool_], what: str) -> tuple[int, str]:
        return self._row_of(np.flatnonzero(wrong)[0]), what

    def _row_of(self, position: np.intp) -> int:
        return int(np.searchsorted(self.ends, position, side="right"))
