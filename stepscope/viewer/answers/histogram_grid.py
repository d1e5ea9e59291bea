"""Histograms of several steps on one grid of adjoining bins."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import OVERFLOW_BIN, SIGN_BIN, TALLIES, left_edges

MAX_BINS = 1024
"""Eight bins a power of two; of more, 2, 4, 8 … neighbours are joined."""

_NEAREST = float(np.finfo(np.float32).tiny)
"""Where the bin around zero ends if nothing but zeros was measured."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The finite elements of n histograms.

    Attributes:
        edges: float64 (bins + 1,), ascending: those of the stored bins, or of some joined. Zeros, and what float32
            takes for zero, lie in the bin around zero; what lies beyond float32 in the outermost ones.
        zero_bin: The place of the bin around zero; -1 where there is none.
        counts: int64 (n, bins): elements in each.
    """

    edges: npt.NDArray[np.float64]
    zero_bin: int
    counts: npt.NDArray[np.int64]


def on_one_grid(columns: HistogramColumns, max_bins: int = MAX_BINS) -> Grid:
    """Puts histograms on one grid that reaches from the smallest to the largest element of all; counts are exact."""
    tally = dict(zip(TALLIES, columns.tallies.T, strict=True))
    around_zero = tally["zero"] + tally["pos_underflow"] + tally["neg_underflow"]
    magnitudes = columns.bins.astype(np.int64) % SIGN_BIN
    negative = columns.bins >= SIGN_BIN
    beyond = {True: tally["neg_overflow"], False: tally["pos_overflow"]}
    extents, join = {}, 1
    for sign in (True, False):
        held = magnitudes[negative == sign]
        if beyond[sign].any():
            held = np.append(held, OVERFLOW_BIN)
        extents[sign] = (int(held.min()), int(held.max()) + 1) if held.size else (0, 0)
    has_zero = bool(around_zero.any()) or all(high for _, high in extents.values())
    while sum(_joined(extent, join) for extent in extents.values()) + has_zero > max_bins:
        join *= 2
    sizes = {sign: _joined(extent, join) for sign, extent in extents.items()}
    starts = {sign: low // join for sign, (low, _) in extents.items()}
    counts = np.zeros((len(columns), sizes[True] + has_zero + sizes[False]), np.int64)
    rows = np.repeat(np.arange(len(columns)), np.diff(columns.ends, prepend=0))
    places = np.where(
        negative,
        sizes[True] - 1 - (magnitudes // join - starts[True]),
        sizes[True] + has_zero + magnitudes // join - starts[False],
    )
    np.add.at(counts, (rows, places), columns.counts)
    if has_zero:
        counts[:, sizes[True]] += around_zero
    if sizes[True]:
        counts[:, 0] += beyond[True]
    if sizes[False]:
        counts[:, -1] += beyond[False]
    below = -_edges(starts[True], sizes[True], join)[::-1] if sizes[True] else np.empty(0)
    above = _edges(starts[False], sizes[False], join) if sizes[False] else np.empty(0)
    if has_zero and not (sizes[True] and sizes[False]):
        nearest = float(above[0]) if sizes[False] else -float(below[-1]) if sizes[True] else _NEAREST
        below = below if sizes[True] else np.array([-nearest])
        above = above if sizes[False] else np.array([nearest])
    edges = np.concatenate([below, above])
    return Grid(edges, sizes[True] if has_zero else -1, counts)


def _joined(extent: tuple[int, int], join: int) -> int:
    low, high = extent
    return -(-high // join) - low // join


def _edges(start: int, size: int, join: int) -> npt.NDArray[np.float64]:
    """The edges of joined bins of magnitudes, ascending, (size + 1,)."""
    return left_edges(np.minimum(np.arange(start, start + size + 1) * join, SIGN_BIN + 1))
