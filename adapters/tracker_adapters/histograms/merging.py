"""Merges many histograms at once: what ``Histogram.merge`` does for two, to the last bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.columns import MOMENTS, HistogramColumns
from tracker_adapters.histograms.histogram import N_BINS

_MIN, _MAX, _MEAN, _M2 = range(len(MOMENTS))


def merge_groups(columns: HistogramColumns, groups: npt.NDArray[np.int64]) -> HistogramColumns:
    """Returns one histogram for each group, by ascending group.

    Counts, min and max are exact. Mean and m2 are folded in the order of the rows, by Chan's pairwise formula as in
    ``Histogram.merge``: merging some rows first and the rest later gives the same bits.

    Args:
        columns: The n histograms.
        groups: int64 (n,): which group each belongs to; any numbers, in any order.
    """
    if not len(columns):
        return columns
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) == len(columns):
        return columns if (order[1:] > order[:-1]).all() else take(columns, order)
    tallies = np.add.reduceat(columns.tallies[order], starts, axis=0)
    lengths = np.diff(columns.ends, prepend=0)
    place = np.empty(len(order), np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    keys = np.repeat(place, lengths) * N_BINS + columns.bins
    # Each row's keys ascend: a stable sort merges these runs.
    by_key = np.argsort(keys, kind="stable")
    keys = keys[by_key]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if keys.size else np.empty(0, np.int64)
    counts = np.add.reduceat(columns.counts[by_key], firsts) if firsts.size else columns.counts[:0]
    held = keys[firsts]
    return HistogramColumns(
        tallies=tallies,
        moments=_folded(columns.moments[order], columns.finite_counts[order], starts),
        ends=np.searchsorted(held, np.arange(1, len(starts) + 1) * N_BINS).astype(np.int64),
        bins=(held % N_BINS).astype(np.uint16),
        counts=counts,
    )


def take(columns: HistogramColumns, rows: npt.NDArray[np.int64]) -> HistogramColumns:
    """Returns the histograms of ``rows`` (int64) in that order."""
    lengths = np.diff(columns.ends, prepend=0)[rows]
    ends = np.cumsum(lengths)
    places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(columns.ends[rows] - ends, lengths)
    return HistogramColumns(
        columns.tallies[rows], columns.moments[rows], ends, columns.bins[places], columns.counts[places]
    )


def _folded(
    moments: npt.NDArray[np.float64], finite: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The moments of each group of adjoining rows; ``finite`` is how many elements each row's moments stand for."""
    total, held = moments[starts].copy(), finite[starts].copy()
    sizes = np.diff(starts, append=len(moments))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for turn in range(1, int(sizes.max())):
            into = np.flatnonzero(sizes > turn)
            row = starts[into] + turn
            a, b, n_a, n_b = total[into], moments[row], held[into], finite[row]
            n = n_a + n_b
            delta = b[:, _MEAN] - a[:, _MEAN]
            mean = a[:, _MEAN] + delta * (n_b / n)
            ends_of_range = ~np.isfinite(mean)
            wide = a[:, _MEAN] * (n_a / n) + b[:, _MEAN] * (n_b / n)
            mean[ends_of_range] = wide[ends_of_range]
            m2 = a[:, _M2] + b[:, _M2] + delta * delta * _product_share(n_a, n_b)
            merged = np.stack([np.fmin(a[:, _MIN], b[:, _MIN]), np.fmax(a[:, _MAX], b[:, _MAX]), mean, m2], axis=1)
            for empty, other in ((n_b == 0, a), (n_a == 0, b)):
                merged[empty, _MEAN:] = other[empty, _MEAN:]
            total[into], held[into] = merged, n
    return total


def _product_share(n_a: npt.NDArray[np.int64], n_b: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """``n_a * n_b / (n_a + n_b)`` with Python's integers, which the product does not overflow."""
    pairs = zip(n_a.tolist(), n_b.tolist(), strict=True)
    return np.array([a * b / (a + b or 1) for a, b in pairs])
