"""The compiled code that measures tensors in one pass over their memory, a thread's share of them at a time."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import OPTIONS

from debuggers.measurement.kernels.blocks import (
    POS_OVERFLOW,
    POS_UNDERFLOW,
    SHIFT,
    count_bins,
    count_underflows,
    count_zeros,
    extremes,
    keep_finite,
    moments,
    narrow,
    subtract,
)
from debuggers.measurement.kernels.joining import join_mean_and_m2
from debuggers.measurement.kernels.memory_access import array_at

BLOCK = 2048
BINS = 4096
ROW, ADDRESS, LENGTH, IS_DOUBLE, BEFORE = range(5)
"""Columns of segments, ordered by row: the tensor's row in the results, from 0 on without gaps; where its contiguous
elements lie; their number; 1 for float64 and 0 for float32; where what is to be subtracted lies, or 0. A row has fewer
than 2**33 elements."""
_LANES = 4  # counters a bin: neighbouring elements often fall into one bin and would wait for each other
_LANE_SIZE = BINS + 16  # a power of two would let the counters of one bin share an address modulo the page's size
_SIGN = 2048
_END = 2040  # the bin of infinity in float32: where float64 overflows to
_compile = numba.njit(**OPTIONS)
_Array = npt.NDArray[Any]


@_compile
def _add(  # noqa: PLR0917
    values: _Array,
    before: _Array,
    scratch: Any,
    histogram: _Array,
    spans: _Array,
    zeros: _Array,
    tally: _Array,
    state: _Array,
) -> None:
    """Adds elements, less those in ``before`` if there are any, to what is known of their tensor.

    The state: number of finite elements, shift, mean less the shift, m2, l1, min and max. Means are kept relative to
    the first element: a large offset would eat their digits.
    """
    kept, narrowed, ends, ends_signed, ends_unsigned, narrow_ends = scratch
    tally[0] += values.size
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        if before.size:
            subtract(block, before[start : start + BLOCK], kept)
            block = kept[: block.size]
        extremes(block.view(ends_signed.dtype), block.view(ends_unsigned.dtype), ends_signed, ends_unsigned)
        if not (abs(ends[1]) < np.inf and abs(ends[3]) < np.inf):
            block = kept[: keep_finite(block, kept, tally)]
            if block.size == 0:
                continue
            extremes(block.view(ends_signed.dtype), block.view(ends_unsigned.dtype), ends_signed, ends_unsigned)
        _add_moments(block, ends, state)
        narrow(ends, narrow_ends)
        _widen(spans, narrow_ends.view(np.uint32))
        if values.itemsize == 4:
            bits = block.view(np.uint32)
        else:
            narrow(block, narrowed)
            bits = narrowed[: block.size].view(np.uint32)
        count_bins(bits, histogram, values.ctypes.data + (start + BLOCK) * values.itemsize)
        if narrow_ends[0] == 0 or narrow_ends[2] == 0:
            count_zeros(bits, tally, zeros)
            if values.itemsize == 8:
                count_underflows(block, tally)


@_compile
def _add_moments(block: _Array, ends: _Array, state: _Array) -> None:
    finite = state[0]
    first = np.float64(block[0])
    if finite == 0:
        state[1] = first
    total, squares, absolute = moments(block)
    block_mean = total / block.size
    block_m2 = max(0.0, squares - total * block_mean)
    state[0] = finite + block.size
    state[2], state[3] = join_mean_and_m2(
        finite, state[2], state[3], block.size, first - state[1] + block_mean, block_m2
    )
    state[4] += absolute
    state[5] = min(state[5], ends.min())
    state[6] = max(state[6], ends.max())


@_compile
def _widen(spans: _Array, ends_bits: _Array) -> None:
    """Lets the spans of occupied bins, one a sign, reach the ends of a block."""
    for i in range(ends_bits.size):
        bin_index = np.int64(ends_bits[i] >> SHIFT)
        span = spans[bin_index // _SIGN]
        span[0] = min(span[0], bin_index)
        span[1] = max(span[1], bin_index)


@_compile
def _collect(  # noqa: PLR0917
    histogram: _Array, spans: _Array, zeros: _Array, tally: _Array, signed: _Array, entries: Any, end: int
) -> int:
    """Appends the occupied bins and empties the histogram for the next tensor; ``signed``: negative, positive."""
    bins, counts = entries
    for sign in range(2):
        lowest, highest = spans[sign]
        total = 0
        if lowest == sign * _SIGN:
            size = _take(histogram, lowest) - zeros[sign]
            total += size
            lowest += 1
            if size:
                bins[end] = sign * _SIGN
                counts[end] = size
                end += 1
        if highest == sign * _SIGN + _END:
            tally[POS_OVERFLOW + sign] = _take(histogram, highest)
            total += tally[POS_OVERFLOW + sign]
            highest -= 1
        for bin_index in range(lowest, highest + 1):  # no branch: whether a bin is empty cannot be guessed
            size = _take(histogram, bin_index)
            total += size
            bins[end] = bin_index
            counts[end] = size
            end += size > 0
        signed[1 - sign] = total + tally[POS_UNDERFLOW + sign]
        spans[sign] = (BINS, -1)
    return end


@_compile
def _take(histogram: _Array, bin_index: int) -> Any:
    """Returns the elements in a bin and empties it."""
    first, second, third, fourth = histogram[0], histogram[1], histogram[2], histogram[3]
    size = np.int64(first[bin_index]) + second[bin_index] + third[bin_index] + fourth[bin_index]
    first[bin_index] = second[bin_index] = third[bin_index] = fourth[bin_index] = 0
    return size


@_compile
def _values(segment: _Array, like: _Array) -> Any:
    return array_at(segment[ADDRESS], like, (segment[LENGTH],))


@_compile
def _before(segment: _Array, like: _Array) -> Any:
    return array_at(segment[BEFORE], like, (segment[LENGTH] if segment[BEFORE] else 0,))


@_compile
def _wide_moments(segments: _Array, like: _Array, count: float) -> Any:
    """Mean and m2 where sums of differences leave float64: divided first, in two passes."""
    mean = m2 = 0.0
    for turn in range(2):
        for i in range(segments.shape[0]):
            values, before = _values(segments[i], like), _before(segments[i], like)
            for j in range(values.size):
                value = values[j] - before[j] if before.size else values[j]
                if abs(value) < np.inf:
                    if turn == 0:
                        mean += value / count
                    else:
                        m2 += (value - mean) * (value - mean)
    return mean, m2


@_compile
def measure_rows(segments: _Array, rows: Any, bins: _Array, counts: _Array) -> int:
    """Measures whole rows, which lie in consecutive segments.

    Args:
        segments: int64 (k, 5).
        rows: Of all rows, those that are measured here included, tallies, int64 (n, 9); moments, float64 (n, 4): min,
            max, mean and m2; signed, int64 (2, n): how many are negative, and positive; l1, float64 (n,); ends, int64
            (n,): where the row's bins end, from the first that is measured here on.
        bins: uint16; room for ``BINS`` or as many as the row has elements, for each row, and one more.
        counts: int64, of the same size.

    Returns:
        How many bins are occupied in all.
    """
    tallies, all_moments, signed, l1, row_ends = rows
    histogram = np.zeros((_LANES, _LANE_SIZE), np.uint32)
    spans = np.array([[BINS, -1], [BINS, -1]])
    zeros, state = np.empty(2, np.int64), np.empty(7)
    kept, narrowed = np.empty(BLOCK), np.empty(BLOCK, np.float32)
    ends_double, ends_single, narrow_ends = np.empty(4), np.empty(4, np.float32), np.empty(4, np.float32)
    double = kept, narrowed, ends_double, ends_double.view(np.int64), ends_double.view(np.uint64), narrow_ends
    kept_single = kept.view(np.float32)[:BLOCK]
    single = kept_single, narrowed, ends_single, ends_single.view(np.int32), ends_single.view(np.uint32), narrow_ends
    start = end = 0
    for stop in range(1, segments.shape[0] + 1):
        segment = segments[stop - 1]
        row = segment[ROW]
        tally = tallies[row]
        if start == stop - 1:
            tally[:] = 0
            zeros[:] = 0
            state[:] = (0.0, 0.0, 0.0, 0.0, 0.0, np.inf, -np.inf)
        if segment[IS_DOUBLE]:
            values, before = _values(segment, ends_double), _before(segment, ends_double)
            _add(values, before, double, histogram, spans, zeros, tally, state)
        else:
            values_single, before_single = _values(segment, ends_single), _before(segment, ends_single)
            _add(values_single, before_single, single, histogram, spans, zeros, tally, state)
        if stop < segments.shape[0] and segments[stop, ROW] == row:
            continue
        finite, mean, m2 = state[0], state[1] + state[2], state[3]
        if not (np.isfinite(mean) and np.isfinite(m2)):  # never with float32
            mean, m2 = _wide_moments(segments[start:stop], ends_double, finite)
        # Adding zero makes -0.0 positive.
        all_moments[row] = (state[5] + 0.0, state[6] + 0.0, mean, m2) if finite else (np.nan, np.nan, np.nan, 0.0)
        l1[row] = state[4]
        end = _collect(histogram, spans, zeros, tally, signed[:, row], (bins, counts), end)
        row_ends[row] = end
        start = stop
    return end
