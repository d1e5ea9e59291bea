"""The compiled loops that measure many host tensors in one call and one pass over their memory.

A tensor is cut into blocks that stay in the first-level cache. Each loop over a block does one thing, so that LLVM
vectorises all of them but the one that counts the bins. numba's cache notices changes of this file only: all that is
compiled is here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import carray, types
from numba.extending import intrinsic

_BLOCK = 2048
_LANES = 4  # counters a bin: neighbouring elements often fall into one bin and would wait for each other
_BINS = 4096
_SIGN = 2048
_SHIFT = np.uint32(20)
_ONE = np.uint32(1)
_END = 2040  # the bin of infinity in float32: where float64 overflows to
# The moments may be summed in any order; NaN and infinity keep their meaning.
_ANY_ORDER = {"reassoc", "nsz", "contract"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_compile = numba.njit(**OPTIONS)
_Array = npt.NDArray[Any]


@intrinsic
def _pointer(typing_context: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to elements of the type that the array ``like`` has."""
    signature = types.CPointer(like.dtype)(address, like)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return signature, generate


@_compile
def _keep_finite(block: _Array, kept: _Array, row: _Array) -> int:
    """Copies the finite elements to ``kept`` and counts the others; returns how many there are."""
    finite = 0
    for i in range(block.size):
        value = block[i]
        if abs(value) < np.inf:
            kept[finite] = value
            finite += 1
        elif value > 0:
            row[1] += 1
        elif value < 0:
            row[2] += 1
        else:
            row[0] += 1
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
def _count_zeros(block: _Array, bits: _Array, row: _Array) -> Any:
    """Counts what float32 has as zero: true zeros, and values of either sign that it rounds to it."""
    plus = minus = true = above = below = 0
    for i in range(block.size):
        is_plus = bits[i] == np.uint32(0)
        is_minus = bits[i] == np.uint32(0x80000000)
        plus += is_plus
        minus += is_minus
        true += block[i] == 0
        above += is_plus & (block[i] > 0)
        below += is_minus & (block[i] < 0)
    row[3] += true
    row[8] += above
    row[9] += below
    return plus, minus


@_compile
def _count_bins(bits: _Array, histogram: _Array) -> None:
    first, second, third, fourth = histogram[0], histogram[1], histogram[2], histogram[3]
    whole = bits.size // 4 * 4
    for i in range(0, whole, 4):
        first[np.uintp(bits[i] >> _SHIFT)] += _ONE
        second[np.uintp(bits[i + 1] >> _SHIFT)] += _ONE
        third[np.uintp(bits[i + 2] >> _SHIFT)] += _ONE
        fourth[np.uintp(bits[i + 3] >> _SHIFT)] += _ONE
    for i in range(whole, bits.size):
        first[np.uintp(bits[i] >> _SHIFT)] += _ONE


@_compile
def _wide_moments(values: _Array, count: int) -> Any:
    """Mean and m2 where sums of differences leave float64: divided first, in two passes."""
    mean = m2 = 0.0
    for value in values.flat:
        if abs(value) < np.inf:
            mean += np.float64(value) / count
    for value in values.flat:
        if abs(value) < np.inf:
            m2 += (value - mean) * (value - mean)
    return mean, m2


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
    histogram: _Array, spans: _Array, zeros: Any, row: _Array, bins: _Array, sizes: _Array, end: int
) -> int:
    """Appends the occupied bins and empties the histogram for the next tensor."""
    first, second, third, fourth = histogram[0], histogram[1], histogram[2], histogram[3]
    for sign in range(2):
        total = -zeros[sign]
        for bin_index in range(spans[sign, 0], spans[sign, 1] + 1):
            size = np.int64(first[bin_index]) + second[bin_index] + third[bin_index] + fourth[bin_index]
            if size == 0:
                continue
            first[bin_index] = second[bin_index] = third[bin_index] = fourth[bin_index] = 0
            total += size
            if bin_index == sign * _SIGN:
                size -= zeros[sign]
            if bin_index == sign * _SIGN + _END:
                row[6 + sign] = size
            elif size:
                bins[end] = bin_index
                sizes[end] = size
                end += 1
        row[5 - sign] = total + row[8 + sign]
        spans[sign] = (_BINS, -1)
    return end


@_compile
def _measure_one(  # noqa: PLR0917
    values: _Array, like_signed: _Array, like_unsigned: _Array, histogram: _Array, spans: _Array, row: _Array
) -> Any:
    """Fills histogram, spans and row; returns min, max, mean, m2, l1, and the float32 zeros of either sign."""
    kept = np.empty(_BLOCK, values.dtype)
    narrow = np.empty(_BLOCK, np.float32)
    ends, narrow_ends = np.empty(4, values.dtype), np.empty(4, np.float32)
    ends_signed, ends_unsigned = ends.view(like_signed.dtype), ends.view(like_unsigned.dtype)
    finite = plus_zeros = minus_zeros = 0
    shift = mean = m2 = l1 = 0.0
    low, high = np.inf, -np.inf
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        _extremes(block.view(like_signed.dtype), block.view(like_unsigned.dtype), ends_signed, ends_unsigned)
        if not (abs(ends[1]) < np.inf and abs(ends[3]) < np.inf):
            block = kept[: _keep_finite(block, kept, row)]
            if block.size == 0:
                continue
            _extremes(block.view(like_signed.dtype), block.view(like_unsigned.dtype), ends_signed, ends_unsigned)
        low, high = min(low, ends.min()), max(high, ends.max())
        first = np.float64(block[0])
        if finite == 0:
            shift = first
        # Means are kept relative to the first element: a large offset would eat their digits.
        total, squares, absolute = _moments(block)
        block_mean = total / block.size
        delta = first - shift + block_mean - mean
        share = block.size / (finite + block.size)
        m2 += max(0.0, squares - total * block_mean) + delta * delta * (finite * share)
        mean += delta * share
        l1 += absolute
        finite += block.size
        _narrow(ends, narrow_ends)
        _widen(spans, narrow_ends.view(np.uint32))
        if values.itemsize == 4:
            bits = block.view(np.uint32)
        else:
            _narrow(block, narrow)
            bits = narrow[: block.size].view(np.uint32)
        _count_bins(bits, histogram)
        if abs(narrow_ends[0]) == 0 or abs(narrow_ends[2]) == 0:
            plus, minus = _count_zeros(block, bits, row)
            plus_zeros += plus
            minus_zeros += minus
    mean += shift
    if not (np.isfinite(mean) and np.isfinite(m2)):
        mean, m2 = _wide_moments(values, finite)
    if finite == 0:
        low = high = mean = np.nan
    # Adding zero makes -0.0 positive.
    return (low + 0.0, high + 0.0, mean, m2, l1), (plus_zeros, minus_zeros)


def measure(  # noqa: PLR0917
    addresses: _Array,
    lengths: _Array,
    like: _Array,
    like_signed: _Array,
    like_unsigned: _Array,
    rows: _Array,
    moments: _Array,
    ends: _Array,
    bins: _Array,
    sizes: _Array,
) -> None:
    """Measures every tensor; the empty arrays ``like…`` have their dtype and the integers of its size."""
    histogram = np.zeros((_LANES, _BINS), np.uint32)
    spans = np.array([[_BINS, -1], [_BINS, -1]])
    end = 0
    for tensor in range(addresses.size):
        values = carray(_pointer(addresses[tensor], like), (lengths[tensor],))
        found, zeros = _measure_one(values, like_signed, like_unsigned, histogram, spans, rows[tensor])
        moments[tensor] = found
        end = _collect(histogram, spans, zeros, rows[tensor], bins, sizes, end)
        ends[tensor] = end
