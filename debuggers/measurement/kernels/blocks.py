"""The loops over a block of elements that stays in the first-level cache.

Each does one thing, so that LLVM vectorises all of them but the one that counts the bins.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import OPTIONS

from debuggers.measurement.kernels.memory_access import prefetch

NAN, POS_INF, NEG_INF, ZERO, POS_OVERFLOW, POS_UNDERFLOW, NEG_UNDERFLOW = 1, 2, 3, 4, 5, 7, 8  # in TALLIES
SHIFT = np.uint32(20)
"""From the bits of a float32 to its bin."""
_ONE = np.uint32(1)
# The moments may be summed in any order; NaN and infinity keep their meaning.
_ANY_ORDER = {"reassoc", "nsz", "contract"}
_compile = numba.njit(**OPTIONS)
_Array = npt.NDArray[Any]


@_compile
def subtract(block: _Array, before: _Array, difference: _Array) -> None:
    """Rounds as ``torch.sub`` does."""
    for i in range(block.size):
        difference[i] = block[i] - before[i]


@_compile
def keep_finite(block: _Array, kept: _Array, tally: _Array) -> int:
    """Copies the finite elements to ``kept`` and counts the others; returns how many there are."""
    finite = 0
    for i in range(block.size):
        value = block[i]
        if abs(value) < np.inf:
            kept[finite] = value
            finite += 1
        elif value > 0:
            tally[POS_INF] += 1
        elif value < 0:
            tally[NEG_INF] += 1
        else:
            tally[NAN] += 1
    return finite


@_compile
def extremes(signed: _Array, unsigned: _Array, ends_signed: _Array, ends_unsigned: _Array) -> None:
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
def moments(block: _Array) -> Any:
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
def narrow(block: _Array, narrowed: _Array) -> None:
    """Rounds to float32."""
    for i in range(block.size):
        narrowed[i] = np.float32(block[i])


@_compile
def count_zeros(bits: _Array, tally: _Array, zeros: _Array) -> None:
    """Counts the zeros of either sign in a block of float32."""
    plus = minus = np.uint32(0)  # as wide as the elements: a wider sum would halve the vectors
    for i in range(bits.size):
        plus += np.uint32(bits[i] == np.uint32(0))
        minus += np.uint32(bits[i] == np.uint32(0x80000000))
    zeros[0] += plus
    zeros[1] += minus
    tally[ZERO] += np.int64(plus) + np.int64(minus)


@_compile
def count_underflows(block: _Array, tally: _Array) -> None:
    """Tells the values of a block of float64 that float32 rounds to zero from the zeros that they were counted as."""
    above = below = 0
    for i in range(block.size):
        is_zero = np.float32(block[i]) == 0
        above += is_zero & (block[i] > 0)
        below += is_zero & (block[i] < 0)
    tally[ZERO] -= above + below
    tally[POS_UNDERFLOW] += above
    tally[NEG_UNDERFLOW] += below


@_compile
def count_bins(bits: _Array, histogram: _Array, ahead: int) -> None:
    """Counts bins; meanwhile, for it waits for stores only, the memory ``ahead`` comes into the cache."""
    first, second, third, fourth = histogram[0], histogram[1], histogram[2], histogram[3]
    whole = bits.size // 16 * 16
    for start in range(0, whole, 16):
        prefetch(ahead + 4 * start)
        for i in range(start, start + 16, 4):
            first[np.uintp(bits[i] >> SHIFT)] += _ONE
            second[np.uintp(bits[i + 1] >> SHIFT)] += _ONE
            third[np.uintp(bits[i + 2] >> SHIFT)] += _ONE
            fourth[np.uintp(bits[i + 3] >> SHIFT)] += _ONE
    for i in range(whole, bits.size):
        first[np.uintp(bits[i] >> SHIFT)] += _ONE
