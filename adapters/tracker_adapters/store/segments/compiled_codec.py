"""The loop that packs histograms into blobs, for numba; ``histogram_codec`` says what a blob holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]
MAX_HEAD_BYTES = 32 + 9 * 10
MAX_BIN_BYTES = 10 + 2


def pack(  # noqa: PLR0917
    tallies: _Array, moments: _Array, ends: _Array, bins: _Array, counts: _Array, buffer: _Array
) -> Any:
    """Fills ``buffer`` with the blobs of n histograms, one after the other.

    Args:
        tallies: uint64 (n, 9).
        moments: uint8 (n, 32): four little-endian float64 each.
        ends: int64 (n,).
        bins: int64, of all histograms.
        counts: uint64, of all histograms.
        buffer: uint8, at least ``MAX_HEAD_BYTES`` a histogram and ``MAX_BIN_BYTES`` a bin.

    Returns:
        Where each blob ends, int64 (n,).
    """
    blob_ends = np.empty(ends.size, np.int64)
    at = entry = 0
    for row in range(ends.size):
        for place in range(moments.shape[1]):
            buffer[at] = moments[row, place]
            at += 1
        # A varint of many kinds in one loop: first the tallies, then the bins.
        heads = tallies.shape[1]
        next_bin = np.int64(0)
        for turn in range(heads + ends[row] - entry):
            gap = np.int64(0)
            if turn < heads:
                value = tallies[row, turn]
            else:
                place = entry + turn - heads
                gap = bins[place] - next_bin
                next_bin = bins[place] + 1
                value = (counts[place] - np.uint64(1)) << np.uint64(1)
                if gap > 0:
                    value |= np.uint64(1)
            while value >= np.uint64(128):
                buffer[at] = np.uint8(value & np.uint64(127)) | np.uint8(128)
                value >>= np.uint64(7)
                at += 1
            buffer[at] = np.uint8(value)
            at += 1
            if gap > 0:
                rest = 2 * (gap - 1)
                if rest >= 128:
                    buffer[at] = np.uint8(rest & 127) | np.uint8(128)
                    rest >>= 7
                    at += 1
                buffer[at] = np.uint8(rest)
                at += 1
        entry = ends[row]
        blob_ends[row] = at
    return blob_ends
