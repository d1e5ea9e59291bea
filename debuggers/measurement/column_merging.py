"""Merges histograms row by row: the walk along their bins is compiled where numba is installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import compile_cached
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.histogram import N_BINS

from debuggers.measurement.kernel_compilation import compilation

_Integers = npt.NDArray[np.int64]
_Bins = npt.NDArray[np.uint16]


def merge_columns(ours: HistogramColumns, theirs: HistogramColumns) -> HistogramColumns:
    """Returns row by row the histogram of the elements of both.

    Counts, min and max are exact in any order of merging; mean and m2 follow the pairwise formula of Chan, Golub and
    LeVeque, 1983.
    """
    ends, bins, counts = _merging()(ours.ends, ours.bins, ours.counts, theirs.ends, theirs.bins, theirs.counts)
    return HistogramColumns(
        tallies=ours.tallies + theirs.tallies, moments=_merge_moments(ours, theirs), ends=ends, bins=bins, counts=counts
    )


def _merge_moments(ours: HistogramColumns, theirs: HistogramColumns) -> npt.NDArray[np.float64]:
    n_ours, n_theirs = ours.finite_counts, theirs.finite_counts
    (low, high, mean, m2), (other_low, other_high, other_mean, other_m2) = ours.moments.T, theirs.moments.T
    merged = np.empty(ours.moments.shape)
    np.fmin(low, other_low, out=merged[:, 0])
    np.fmax(high, other_high, out=merged[:, 1])
    with np.errstate(invalid="ignore", over="ignore"):
        share = n_theirs / np.maximum(n_ours + n_theirs, 1)
        delta = other_mean - mean
        both = mean + delta * share
        if not np.isfinite(both).all():  # nothing on one side, or means at the two ends of float64
            both = np.where(np.isfinite(both), both, mean * (1 - share) + other_mean * share)
            both = np.where(n_ours == 0, other_mean, np.where(n_theirs == 0, mean, both))
            delta = np.where((n_ours == 0) | (n_theirs == 0), 0, delta)
        merged[:, 2] = both
        merged[:, 3] = m2 + other_m2 + delta * delta * (n_ours * share)
    return merged


@cache
def compiled_merge() -> Any:
    """Returns the walk along the bins, which is compiled when it is first called.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    return compile_cached(_merge_in_step)


def _merging() -> Any:
    return compiled_merge() if compilation.is_ready() else _merge_by_sorting


def _merge_in_step(  # noqa: PLR0917
    ends: Any, bins: Any, counts: Any, other_ends: Any, other_bins: Any, other_counts: Any
) -> Any:
    """Walks along both histograms of a row at once, without branches on what is read: they would be guessed wrong."""
    merged_ends = np.empty(ends.size, np.int64)
    merged_bins = np.empty(bins.size + other_bins.size, np.uint16)
    merged_counts = np.empty(bins.size + other_bins.size, np.int64)
    i = j = end = 0
    for row in range(ends.size):
        while i < ends[row] and j < other_ends[row]:
            ours, theirs = bins[i], other_bins[j]
            takes_ours, takes_theirs = ours <= theirs, theirs <= ours
            merged_bins[end] = min(ours, theirs)
            merged_counts[end] = takes_ours * counts[i] + takes_theirs * other_counts[j]
            i += takes_ours
            j += takes_theirs
            end += 1
        while i < ends[row]:
            merged_bins[end] = bins[i]
            merged_counts[end] = counts[i]
            i += 1
            end += 1
        while j < other_ends[row]:
            merged_bins[end] = other_bins[j]
            merged_counts[end] = other_counts[j]
            j += 1
            end += 1
        merged_ends[row] = end
    return merged_ends, merged_bins[:end].copy(), merged_counts[:end].copy()


def _merge_by_sorting(  # noqa: PLR0917
    ends: _Integers, bins: _Bins, counts: _Integers,
    other_ends: _Integers, other_bins: _Bins, other_counts: _Integers,
) -> tuple[_Integers, _Bins, _Integers]:  # fmt: skip
    keys = np.concatenate([_keys(ends, bins), _keys(other_ends, other_bins)])
    if not keys.size:
        return ends, bins, counts
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys = keys[starts]
    merged_ends = np.searchsorted(keys, N_BINS * np.arange(1, ends.size + 1))
    return (
        merged_ends.astype(np.int64),
        (keys % N_BINS).astype(np.uint16),
        np.add.reduceat(np.concatenate([counts, other_counts])[order], starts),
    )


def _keys(ends: _Integers, bins: _Bins) -> _Integers:
    """Row and bin of each entry as one number, ascending."""
    rows = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    return rows * N_BINS + bins
