"""Merges histograms: two, or the bins of many at once, which runs compiled once a process has asked for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.compilation import compile_cached
from tracker_adapters.histograms.layout import MOMENTS, N_BINS, TALLIES, Summary
from tracker_adapters.histograms.moments import join_moments

Integers = npt.NDArray[np.int64]
Bins = npt.NDArray[np.uint16]


def merge_fields(ours: Summary, theirs: Summary) -> dict[str, Any]:
    """Returns tallies, moments, bins and counts by name of the elements of both."""
    dense = np.zeros(N_BINS, np.int64)
    dense[ours.bins] = ours.counts
    dense[theirs.bins] += theirs.counts
    bins = np.flatnonzero(dense)
    moments, other_moments = (np.array([getattr(one, key) for key in MOMENTS]) for one in (ours, theirs))
    joined = join_moments(ours.finite_count, moments, theirs.finite_count, other_moments)
    tallies = {key: getattr(ours, key) + getattr(theirs, key) for key in TALLIES}
    return (
        tallies
        | dict(zip(MOMENTS, joined.tolist(), strict=True))
        | {
            "bins": bins.astype(np.uint16),
            "counts": dense[bins],
        }
    )


def merge_bins(
    order: Integers, starts: Integers, ends: Integers, bins: Bins, counts: Integers
) -> tuple[Integers, Bins, Integers]:
    """Returns ends, bins and counts of one histogram for each group of histograms.

    Args:
        order: int64 (n,): the rows of the groups, one group after the other.
        starts: int64 (groups,): where each group begins in ``order``; ascending.
        ends: int64 (n,): where the bins of each row end, as in ``HistogramColumns``; ``bins`` and ``counts`` likewise.
        bins: Occupied bins, ascending within each row.
        counts: Elements in each of them.
    """
    if _compiled is None:
        return _merge_by_sorting(order, starts, ends, bins, counts)
    # For memory of another kind numba would compile once more, for seconds.
    arrays = (np.require(array, requirements=("C", "W")) for array in (order, starts, ends, bins, counts))
    return _compiled(*arrays)  # type: ignore[no-any-return]


def compile_merging() -> None:
    """Has ``merge_bins`` run compiled from now on, several times faster; what it returns stays the same.

    Compiling takes seconds, unless it is cached.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    global _compiled
    if _compiled is None:
        compiled, none = compiled_merge(), np.empty(0, np.int64)
        compiled(none, none, none, np.empty(0, np.uint16), none)
        _compiled = compiled


@cache
def compiled_merge() -> Any:
    """Returns the function that ``compile_merging`` compiles.

    Raises:
        ImportError: If numba is not installed or is switched off.
    """
    return compile_cached(_merge_in_step)


_compiled: Any = None


def _merge_by_sorting(
    order: Integers, starts: Integers, ends: Integers, bins: Bins, counts: Integers
) -> tuple[Integers, Bins, Integers]:
    group_of = np.empty(len(order), np.int64)
    group_of[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    keys = np.repeat(group_of, np.diff(ends, prepend=0)) * N_BINS + bins
    # Each row's keys ascend: a stable sort merges these runs.
    by_key = np.argsort(keys, kind="stable")
    keys = keys[by_key]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    held = keys[firsts]
    return (
        np.searchsorted(held, np.arange(1, len(starts) + 1) * N_BINS).astype(np.int64),
        (held % N_BINS).astype(np.uint16),
        np.add.reduceat(counts[by_key], firsts) if firsts.size else counts[:0],
    )


def _merge_in_step(order: Any, starts: Any, ends: Any, bins: Any, counts: Any) -> Any:
    """Walks along two histograms at once, without branches on what is read: they would be guessed wrong."""
    merged_ends = np.empty(starts.size, np.int64)
    merged_bins, merged_counts = np.empty(bins.size, np.uint16), np.empty(bins.size, np.int64)
    held_bins, held_counts = np.empty(N_BINS, np.uint16), np.empty(N_BINS, np.int64)
    end = 0
    for group in range(starts.size):
        begin, row = end, order[starts[group]]
        stop = starts[group + 1] if group + 1 < starts.size else order.size
        left_bins, left_counts, i, left_end = bins, counts, (ends[row - 1] if row else 0), ends[row]
        for place in range(starts[group] + 1, stop):
            row = order[place]
            j, right_end = (ends[row - 1] if row else 0), ends[row]
            while i < left_end and j < right_end:
                left, right = left_bins[i], bins[j]
                takes_left, takes_right = left <= right, right <= left
                merged_bins[end] = min(left, right)
                merged_counts[end] = takes_left * left_counts[i] + takes_right * counts[j]
                i += takes_left
                j += takes_right
                end += 1
            for rest in range(j, right_end):
                merged_bins[end], merged_counts[end] = bins[rest], counts[rest]
                end += 1
            if place + 1 < stop:
                for rest in range(i, left_end):
                    merged_bins[end], merged_counts[end] = left_bins[rest], left_counts[rest]
                    end += 1
                size = end - begin
                held_bins[:size], held_counts[:size] = merged_bins[begin:end], merged_counts[begin:end]
                left_bins, left_counts, i, left_end, end = held_bins, held_counts, 0, size, begin
        for rest in range(i, left_end):
            merged_bins[end], merged_counts[end] = left_bins[rest], left_counts[rest]
            end += 1
        merged_ends[group] = end
    return merged_ends, merged_bins[:end].copy(), merged_counts[:end].copy()
