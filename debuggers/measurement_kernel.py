"""The compiled loops that measure many host tensors in one call and one pass over their memory.

A tensor is cut into blocks that stay in the first-level cache. Each loop over a block does one thing, so that LLVM
vectorises all of them but the one that counts the bins. numba's cache notices changes of this file only: the loops
are all here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import carray
from tracker_adapters.compilation import OPTIONS

from debuggers.memory_access import pointer, prefetch

BLOCK = 2048
BINS = 4096
_LANES = 4  # counters a bin: neighbouring elements often fall into one bin and would wait for each other
_LANE_SIZE = BINS + 16  # a power of two would let the counters of one bin share an address modulo the page's size
_NAN, _POS_INF, _NEG_INF, _ZERO, _POS_OVERFLOW, _POS_UNDERFLOW, _NEG_UNDERFLOW = 1, 2, 3, 4, 5, 7, 8  # in TALLIES
_SIGN = 2048
_ROW, _ADDRESS, _LENGTH, _IS_DOUBLE = range(4)  # columns of segments
_SHIFT, _ONE = np.uint32(20), np.uint32(1)
_END = 2040  # the bin of infinity in float32: where float64 overflows to
# The moments may be summed in any order; NaN and infinity keep their meaning.
_ANY_ORDER = {"reassoc", "nsz", "contract"}
_compile = numba.njit(**OPTIONS)
_Array = npt.NDArray[Any]


@_compile
def _keep_finite(block: _Array, kept: _Array, tally: _Array) -> int:
    """Copies the finite elements to ``kept`` and counts the others; returns how many there are."""
    finite = 0
    for i in range(block.size):
        value = block[i]
        if abs(value) < np.inf:
            kept[finite] = value
            finite += 1
        elif value > 0:
            tally[_POS_INF] += 1
        elif value < 0:
            tally[_NEG_INF] += 1
        else:
            tally[_NAN] += 1
    return finite


@_compile
def _extremes(signed: _Array, unsigned: _Array, ends_signed: _Array, ends_unsigned: _Array) -> None:
    """Finds the elements of least and most magnitude on either side of zero, by the bits of a block.

    Read as integers, positive floats ascend and negative ones descend, NaN and infinity lying outermost: integer
    minima and maxima vectorise. With one sign only, the ends of the other are elements too.
    """
    bottom_signed = top_signed = signed[0]
    bottom = top = unsigned[0]
    for i in range(signed.size):
        bottom_signed = signed[i] if signed[i] < bottom_signed else bottom_signed
        top_signed = signed[i] if signed[i] > top_signed else top_signed
        bottom = unsigned[i] if unsigned[i] < bottom else bottom
        top = unsigned[i] if unsigned[i] > top else top
    ends_unsigned[0] = bottom
    ends_signed[1] = top_signed
    ends_signed[2] = bottom_signed
    ends_unsigned[3] = top


@numba.njit(fastmath=_ANY_ORDER, **OPTIONS)
def _moments(block: _Array) -> Any:
    """Sums relative to the first element: with it, squares lose at most a factor of the block's size."""
    first = np.float64(block[0])
    total = squares = absolute = 0.0
    for i in range(block.size):
        value = np.float64(block[i])
        difference = value - first
        total += difference
        squares += difference * difference
        absolute += abs(value)
    return total, squares, absolute


@_compile
def _narrow(block: _Array, narrow: _Array) -> None:
    for i in range(block.size):
        narrow[i] = np.float32(block[i])


@_compile
def _count_zeros(bits: _Array, tally: _Array, zeros: _Array) -> None:
    """Counts the zeros of either sign in a block of float32."""
    plus = minus = np.uint32(0)  # as wide as the elements: a wider sum would halve the vectors
    for i in range(bits.size):
        plus += np.uint32(bits[i] == np.uint32(0))
        minus += np.uint32(bits[i] == np.uint32(0x80000000))
    zeros[0] += plus
    zeros[1] += minus
    tally[_ZERO] += np.int64(plus) + np.int64(minus)


@_compile
def _count_underflows(block: _Array, tally: _Array) -> None:
    """Tells the values of a block of float64 that float32 rounds to zero from the zeros that they were counted as."""
    above = below = 0
    for i in range(block.size):
        is_zero = np.float32(block[i]) == 0
        above += is_zero & (block[i] > 0)
        below += is_zero & (block[i] < 0)
    tally[_ZERO] -= above + below
    tally[_POS_UNDERFLOW] += above
    tally[_NEG_UNDERFLOW] += below


@_compile
def _count_bins(bits: _Array, histogram: _Array, ahead: int) -> None:
    """Counts bins; meanwhile, for it waits for stores only, the memory ``ahead`` comes into the cache."""
    first, second, third, fourth = histogram[0], histogram[1], histogram[2], histogram[3]
    whole = bits.size // 16 * 16
    for start in range(0, whole, 16):
        prefetch(ahead + 4 * start)
        for i in range(start, start + 16, 4):
            first[np.uintp(bits[i] >> _SHIFT)] += _ONE
            second[np.uintp(bits[i + 1] >> _SHIFT)] += _ONE
            third[np.uintp(bits[i + 2] >> _SHIFT)] += _ONE
            fourth[np.uintp(bits[i + 3] >> _SHIFT)] += _ONE
    for i in range(whole, bits.size):
        first[np.uintp(bits[i] >> _SHIFT)] += _ONE


@_compile
def _add(  # noqa: PLR0917
    values: _Array, scratch: Any, histogram: _Array, spans: _Array, zeros: _Array, tally: _Array, state: _Array
) -> None:
    """Adds elements to what is known of their tensor: histogram, spans, zeros, tally and state.

    The state: number of finite elements, shift, mean less the shift, m2, l1, min and max. Means are kept relative to
    the first element: a large offset would eat their digits.
    """
    kept, narrow, ends, ends_signed, ends_unsigned, narrow_ends = scratch
    tally[0] += values.size
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        _extremes(block.view(ends_signed.dtype), block.view(ends_unsigned.dtype), ends_signed, ends_unsigned)
        if not (abs(ends[1]) < np.inf and abs(ends[3]) < np.inf):
            block = kept[: _keep_finite(block, kept, tally)]
            if block.size == 0:
                continue
            _extremes(block.view(ends_signed.dtype), block.view(ends_unsigned.dtype), ends_signed, ends_unsigned)
        _add_moments(block, ends, state)
        _narrow(ends, narrow_ends)
        _widen(spans, narrow_ends.view(np.uint32))
        if values.itemsize == 4:
            bits = block.view(np.uint32)
        else:
            _narrow(block, narrow)
            bits = narrow[: block.size].view(np.uint32)
        _count_bins(bits, histogram, values.ctypes.data + (start + BLOCK) * values.itemsize)
        if narrow_ends[0] == 0 or narrow_ends[2] == 0:
            _count_zeros(bits, tally, zeros)
            if values.itemsize == 8:
                _count_underflows(block, tally)


@_compile
def _add_moments(block: _Array, ends: _Array, state: _Array) -> None:
    finite = state[0]
    first = np.float64(block[0])
    if finite == 0:
        state[1] = first
    total, squares, absolute = _moments(block)
    block_mean = total / block.size
    delta = first - state[1] + block_mean - state[2]
    share = block.size / (finite + block.size)
    state[0] = finite + block.size
    state[2] += delta * share
    state[3] += max(0.0, squares - total * block_mean) + delta * delta * (finite * share)
    state[4] += absolute
    state[5] = min(state[5], ends.min())
    state[6] = max(state[6], ends.max())


@_compile
def _widen(spans: _Array, ends_bits: _Array) -> None:
    """Lets the spans of occupied bins, one a sign, reach the ends of a block."""
    for i in range(ends_bits.size):
        bin_index = np.int64(ends_bits[i] >> _SHIFT)
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
            tally[_POS_OVERFLOW + sign] = _take(histogram, highest)
            total += tally[_POS_OVERFLOW + sign]
            highest -= 1
        for bin_index in range(lowest, highest + 1):  # no branch: whether a bin is empty cannot be guessed
            size = _take(histogram, bin_index)
            total += size
            bins[end] = bin_index
            counts[end] = size
            end += size > 0
        signed[1 - sign] = total + tally[_POS_UNDERFLOW + sign]
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
    return carray(pointer(segment[_ADDRESS], like), (segment[_LENGTH],))


@_compile
def _wide_moments(segments: _Array, like: _Array, count: float) -> Any:
    """Mean and m2 where sums of differences leave float64: divided first, in two passes."""
    mean = m2 = 0.0
    for i in range(segments.shape[0]):
        for value in _values(segments[i], like).flat:
            if abs(value) < np.inf:
                mean += value / count
    for i in range(segments.shape[0]):
        for value in _values(segments[i], like).flat:
            if abs(value) < np.inf:
                m2 += (value - mean) * (value - mean)
    return mean, m2


def measure(  # noqa: PLR0917
    segments: _Array, tallies: _Array, moments: _Array, signed: _Array, l1: _Array, ends: _Array
) -> Any:
    """Measures tensors that lie in segments; see ``measurement_cpu.measure_segments``.

    Args:
        segments: Row, address, length, and whether float64: int64, ordered by row.
        tallies: Zeros, (n, 9); takes the counts in the order of ``TALLIES``.
        moments: (n, 4); takes min, max, mean and m2.
        signed: (2, n); takes the numbers of negative and of positive elements.
        l1: (n,); takes the sums of absolute values.
        ends: (n,); takes where each tensor's bins end.

    Returns:
        ``bins`` and ``counts`` of the occupied bins.
    """
    room = 1
    for i in range(segments.shape[0]):
        room += min(segments[i, _LENGTH], BINS)
    bins, counts = np.empty(room, np.uint16), np.empty(room, np.int64)
    histogram = np.zeros((_LANES, _LANE_SIZE), np.uint32)
    spans = np.array([[BINS, -1], [BINS, -1]])
    zeros, state = np.empty(2, np.int64), np.empty(7)
    kept, narrow = np.empty(BLOCK), np.empty(BLOCK, np.float32)
    ends_double, ends_single, narrow_ends = np.empty(4), np.empty(4, np.float32), np.empty(4, np.float32)
    double = kept, narrow, ends_double, ends_double.view(np.int64), ends_double.view(np.uint64), narrow_ends
    kept_single = kept.view(np.float32)[:BLOCK]
    single = kept_single, narrow, ends_single, ends_single.view(np.int32), ends_single.view(np.uint32), narrow_ends
    start = end = 0
    for stop in range(1, segments.shape[0] + 1):
        segment = segments[stop - 1]
        row = segment[_ROW]
        tally = tallies[row]
        if start == stop - 1:
            zeros[:] = 0
            state[:] = (0.0, 0.0, 0.0, 0.0, 0.0, np.inf, -np.inf)
        if segment[_IS_DOUBLE]:
            _add(_values(segment, ends_double), double, histogram, spans, zeros, tally, state)
        else:
            _add(_values(segment, ends_single), single, histogram, spans, zeros, tally, state)
        if stop < segments.shape[0] and segments[stop, _ROW] == row:
            continue
        finite, mean, m2 = state[0], state[1] + state[2], state[3]
        if not (np.isfinite(mean) and np.isfinite(m2)):  # never with float32
            mean, m2 = _wide_moments(segments[start:stop], ends_double, finite)
        # Adding zero makes -0.0 positive.
        moments[row] = (state[5] + 0.0, state[6] + 0.0, mean, m2) if finite else (np.nan, np.nan, np.nan, 0.0)
        l1[row] = state[4]
        end = _collect(histogram, spans, zeros, tally, signed[:, row], (bins, counts), end)
        ends[row] = end
        start = stop
    return bins[:end].copy(), counts[:end].copy()  # what is kept must not keep all the room
