"""The fixed bins of many histograms as contiguous intervals by ascending value, as trackers show them."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.layout import N_BINS, OVERFLOW_BIN, SIGN_BIN, left_edges

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
N = TypeVar("N", bound=np.generic)

# A row has N_BINS places: bin b of positive values has place b, that of negative ones -b, zero and what is nearest to
# it 0, and what float32 cannot hold OVERFLOW_BIN on either side.
_EDGES = left_edges(np.arange(SIGN_BIN + 2))
_LEFT = np.concatenate([-_EDGES[:1:-1], [-_EDGES[1]], _EDGES[1:]])
"""The left edge of every place from -2048 to 2049."""
_LEAST_RIGHT = np.nextafter(-np.finfo(np.float64).max, 0)
"""Leaves room for a finite edge on its left."""


def contiguous_bins(
    bins: npt.NDArray[np.uint16],
    counts: Integers,
    ends: Integers,
    *,
    around_zero: Integers,
    neg_overflow: Integers,
    pos_overflow: Integers,
    high: Floats,
) -> tuple[Integers, Floats, Integers]:
    """Returns the finite elements of n histograms as adjoining intervals; gaps between bins become empty ones.

    Args:
        bins: Of all histograms, one after the other, as in ``HistogramColumns``; counts and ends likewise.
        counts: Elements in each bin.
        ends: Where the bins of each histogram end.
        around_zero: Elements of each histogram that are zero, or closer to it than float32 gets.
        neg_overflow: Elements of each below float32's range.
        pos_overflow: Elements of each above it.
        high: The largest finite element of each, which becomes the last right edge.

    Returns:
        ``(ends, rights, counts)``: where the intervals of each histogram end, and each one's right edge and
        elements. Edges are strictly ascending. The first interval begins at the smallest finite element, which the
        caller knows. A histogram with no finite element has no interval.
    """
    n = len(ends)
    rows, places = _places(bins, ends)
    beside = [(around_zero, 0), (neg_overflow, -OVERFLOW_BIN), (pos_overflow, OVERFLOW_BIN)]
    occupied = [(np.flatnonzero(number), number, place) for number, place in beside if number.any()]
    keys = np.concatenate([rows + places, *(where * N_BINS + place for where, _, place in occupied)])
    sizes = np.concatenate([counts, *(number[where] for where, number, _ in occupied)])
    order = np.argsort(keys, kind="stable")
    keys, sizes = keys[order], sizes[order]
    if not keys.size:
        return np.zeros(n, np.int64), np.empty(0), np.empty(0, np.int64)
    new = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    if new.size < keys.size:  # the bins on either side of zero share one interval with it
        keys, sizes = keys[new], np.add.reduceat(sizes, new)
    row = (keys + SIGN_BIN) // N_BINS
    place = keys - row * N_BINS
    is_last = np.diff(row, append=n) > 0
    jump = np.diff(keys, append=0)
    gap_after = (jump > 1) & ~is_last
    at = np.arange(keys.size) + np.cumsum(gap_after) - gap_after
    found = np.zeros(keys.size + int(np.count_nonzero(gap_after)), np.int64)
    found[at] = sizes
    rights = np.empty(found.size)
    rights[at] = _LEFT[place + SIGN_BIN + 1]
    before_gap = np.flatnonzero(gap_after)
    rights[at[before_gap] + 1] = _LEFT[place[before_gap + 1] + SIGN_BIN]
    last = np.flatnonzero(is_last)
    stops = at[last] + 1
    row_ends = np.zeros(n, np.int64)
    row_ends[row[last]] = stops
    row_ends = np.maximum.accumulate(row_ends)
    # The rounding of float64 to float32 can put an extreme just outside its bin.
    alone = np.diff(stops, prepend=0) == 1
    least = np.where(alone, _LEAST_RIGHT, np.nextafter(_LEFT[place[last] + SIGN_BIN], np.inf))
    rights[stops - 1] = np.maximum(high[row[last]], least)
    return row_ends, rights, found


def merged_bins(rights: Floats, counts: npt.NDArray[N], most: int) -> tuple[Floats, npt.NDArray[N]]:
    """Returns adjoining intervals with neighbours merged until at most ``most``, at least 1, are left.

    Both arrays have shape (n,), as those of one histogram that ``contiguous_bins`` returns; what is merged is new.
    """
    if counts.size <= most:
        return rights, counts
    bounds = np.arange(most + 1) * counts.size // most
    return rights[bounds[1:] - 1], np.add.reduceat(counts, bounds[:-1])


def first_edge(low: float, rights: Floats) -> float:
    """Returns where the first of a histogram's intervals begins: at its smallest element, and below its right edge."""
    return min(low, float(np.nextafter(rights[0], -np.inf)))


def middles_at(edges: Floats, counts: Integers, ranks: Floats, *, low: float, high: float) -> Floats:
    """Returns, for each rank from 0 to counts.sum() - 1, the middle of the bin that holds the element of this rank.

    Middles are kept within ``low`` and ``high``, the extremes of the elements.
    """
    # Whatever is not in a bin before is in the last one, also where a rank beyond 2**53 is rounded up to the sum.
    place = np.searchsorted(np.cumsum(counts[:-1]), ranks, side="right")
    lefts = edges[place]
    middles: Floats = np.clip(lefts + (edges[place + 1] - lefts) / 2, low, high)
    return middles


def _places(bins: npt.NDArray[np.uint16], ends: Integers) -> tuple[Integers, Integers]:
    numbers = bins.astype(np.int64)
    places = np.where(numbers >= SIGN_BIN, SIGN_BIN - numbers, numbers)
    return np.repeat(np.arange(len(ends)) * N_BINS, np.diff(ends, prepend=0)), places
