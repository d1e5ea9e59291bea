"""Turns the bins of arrays into those of the arrays times a power of two."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.layout import N_BINS, SHIFT, SIGN_BIN, TALLIES

Integers = npt.NDArray[np.int64]
Bins = npt.NDArray[np.uint16]
_KEPT, _OVERFLOW, _UNDERFLOW = range(3)
_TALLIES_OF = {
    _OVERFLOW: (TALLIES.index("pos_overflow"), TALLIES.index("neg_overflow")),
    _UNDERFLOW: (TALLIES.index("pos_underflow"), TALLIES.index("neg_underflow")),
}


def scale_bins(
    tallies: Integers, ends: Integers, bins: Bins, counts: Integers, exponent: int
) -> tuple[Integers, Integers, Bins, Integers]:
    """Returns tallies, ends, bins and counts of the arrays times ``2**exponent``; see ``HistogramColumns.scaled``."""
    targets, fates = _targets(exponent)
    scaled, entry_fates = targets[bins], fates[bins]
    if entry_fates.any():
        rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        tallies = tallies.copy()
        for fate, tallies_of_signs in _TALLIES_OF.items():
            for sign, tally in enumerate(tallies_of_signs):
                left = (entry_fates == fate) & (bins // SIGN_BIN == sign)
                np.add.at(tallies[:, tally], rows[left], counts[left])
        kept = entry_fates == _KEPT
        scaled, counts, rows = scaled[kept], counts[kept], rows[kept]
        ends = np.searchsorted(rows, np.arange(len(ends)), side="right").astype(np.int64)
    # Halves of a bin that meet among the subnormal ones, where a bin is wider.
    starts = np.diff(scaled, prepend=np.uint16(N_BINS)) != 0
    starts[ends[ends < len(scaled)]] = True
    if not starts.all():
        ends = np.concatenate([[0], np.cumsum(starts)])[ends]
        scaled, counts = scaled[starts], np.add.reduceat(counts, np.flatnonzero(starts))
    return tallies, ends, scaled, counts


@lru_cache(maxsize=64)
def _targets(exponent: int) -> tuple[Bins, npt.NDArray[np.uint8]]:
    """Where the middle of each bin goes, and whether it stays within float32."""
    middles = (np.arange(N_BINS, dtype=np.uint32) << np.uint32(SHIFT)) + np.uint32(1 << (SHIFT - 1))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled = np.ldexp(middles.view(np.float32).astype(np.float64), exponent).astype(np.float32)
    fates = np.where(scaled == 0, _UNDERFLOW, np.where(np.isinf(scaled), _OVERFLOW, _KEPT)).astype(np.uint8)
    return (scaled.view(np.uint32) >> np.uint32(SHIFT)).astype(np.uint16), fates
