"""Turns the histograms of arrays into those of the arrays times a power of two."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import TALLIES, HistogramColumns
from tracker_adapters.histograms.histogram import N_BINS

_SIGN_BIN = 2048
_SHIFT = np.uint32(20)  # float32 keeps 23 mantissa bits; the top 3 belong to the bin
_KEPT, _OVERFLOW, _UNDERFLOW = range(3)
_TALLIES_OF = {
    _OVERFLOW: (TALLIES.index("pos_overflow"), TALLIES.index("neg_overflow")),
    _UNDERFLOW: (TALLIES.index("pos_underflow"), TALLIES.index("neg_underflow")),
}
_Targets = tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]


def scale_columns(columns: HistogramColumns, exponent: int) -> HistogramColumns:
    """Returns the histograms of the arrays times ``2**exponent``; see ``SummaryTable.scaled``."""
    targets, fates = _targets(exponent)
    bins, counts, ends, tallies = targets[columns.bins], columns.counts, columns.ends, columns.tallies
    entry_fates = fates[columns.bins]
    if entry_fates.any():
        rows = np.repeat(np.arange(len(columns)), np.diff(ends, prepend=0))
        tallies = tallies.copy()
        for fate, tallies_of_signs in _TALLIES_OF.items():
            for sign, tally in enumerate(tallies_of_signs):
                left = (entry_fates == fate) & (columns.bins // _SIGN_BIN == sign)
                np.add.at(tallies[:, tally], rows[left], counts[left])
        kept = entry_fates == _KEPT
        bins, counts, rows = bins[kept], counts[kept], rows[kept]
        ends = np.searchsorted(rows, np.arange(len(columns)), side="right").astype(np.int64)
    # Halves of a bin that meet among the subnormal ones, where a bin is wider.
    starts = np.diff(bins, prepend=np.uint16(N_BINS)) != 0
    starts[ends[ends < len(bins)]] = True
    if not starts.all():
        ends = np.concatenate([[0], np.cumsum(starts)])[ends]
        bins, counts = bins[starts], np.add.reduceat(counts, np.flatnonzero(starts))
    return HistogramColumns(tallies, _scale_moments(columns.moments, exponent), ends, bins, counts)


def _scale_moments(moments: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.ldexp(moments, np.array([exponent, exponent, exponent, 2 * exponent], np.int32))


@lru_cache(maxsize=64)
def _targets(exponent: int) -> _Targets:
    """Where the middle of each bin goes, and whether it stays within float32."""
    middles = (np.arange(N_BINS, dtype=np.uint32) << _SHIFT) + np.uint32(1 << 19)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled = np.ldexp(middles.view(np.float32).astype(np.float64), exponent).astype(np.float32)
    fates = np.where(scaled == 0, _UNDERFLOW, np.where(np.isinf(scaled), _OVERFLOW, _KEPT)).astype(np.uint8)
    return (scaled.view(np.uint32) >> _SHIFT).astype(np.uint16), fates
