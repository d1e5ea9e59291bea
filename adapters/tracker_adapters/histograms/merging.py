"""Merges histograms: two, or the bins of many at once."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.layout import MOMENTS, N_BINS, TALLIES, Summary
from tracker_adapters.histograms.moments import join_moments
from tracker_adapters.native.extension import kernels

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
    native = kernels()
    if native is None:
        return _merge_by_sorting(order, starts, ends, bins, counts)
    dtypes = (np.int64, np.int64, np.int64, np.uint16, np.int64)
    merged = native.merge(*map(np.ascontiguousarray, (order, starts, ends, bins, counts), dtypes))
    return tuple(map(np.frombuffer, merged, dtypes[2:]))  # type: ignore[return-value]


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
