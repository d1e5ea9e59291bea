"""The kernel that measures blocks of tensors; see the package. Imported only where tensors on a GPU are measured."""

import triton
import triton.language as tl
from tracker_adapters.histograms.layout import OVERFLOW_BIN, SHIFT, SIGN_BIN

from debuggers.measurement.kernels import row_format
from debuggers.measurement.kernels.gpu.segments import DTYPES
from debuggers.torch_import import torch

DEPTH = tl.constexpr(8)  # elements that are added up in float32
LANES = tl.constexpr(512)
BLOCK = tl.constexpr(DEPTH.value * LANES.value)
FIELDS = tl.constexpr(5)  # of a tensor in the table: address, that of what is subtracted, length, first block, factor
FOUND = tl.constexpr(8)  # numbers of a block: see the end of _find_moments
WORDS = tl.constexpr(row_format.WORDS)
_WINDOW = tl.constexpr(64)  # counters in fast memory for each sign, the first of which is not used
_BELOW_MEAN = tl.constexpr(40)  # bins of the window: fewer are above, where normally distributed values are rare
_NO_COUNTER = tl.constexpr(4 * _WINDOW.value)
"""Is dropped by ``tl.histogram``, or counted modulo its size, by the first counter, as older versions do it."""
_BFLOAT16, _FLOAT16, _FLOAT64 = (
    tl.constexpr(DTYPES.index(dtype)) for dtype in (torch.bfloat16, torch.float16, torch.float64)
)
_NAN_HALF = tl.constexpr(0x7FC0)
_NO_BIN = tl.constexpr(0x7FFFFFFF)  # bits whose bin is in no window
_SHIFT, _SIGN_BIN, _MAGNITUDE = tl.constexpr(SHIFT), tl.constexpr(SIGN_BIN), tl.constexpr(SIGN_BIN - 1)
_MAX_BASE = tl.constexpr(OVERFLOW_BIN - _WINDOW.value)
_ZERO, _NAN = tl.constexpr(row_format.CODES["zero"]), tl.constexpr(row_format.CODES["nan"])
_PLUS_INFINITY = tl.constexpr(row_format.CODES["pos_inf"])
_MINUS_INFINITY = tl.constexpr(row_format.CODES["neg_inf"])
_PLUS_OVERFLOW = tl.constexpr(row_format.CODES["pos_overflow"])
_MINUS_OVERFLOW = tl.constexpr(row_format.CODES["neg_overflow"])
_PLUS_UNDERFLOW = tl.constexpr(row_format.CODES["pos_underflow"])
_MINUS_UNDERFLOW = tl.constexpr(row_format.CODES["neg_underflow"])


@triton.jit(do_not_specialize=["first"])  # another number does not compile the kernel again
def measure_blocks(
    table, owners, rows, partials, first, KIND: tl.constexpr, SUBTRACT: tl.constexpr, SCALE: tl.constexpr
):
    block = tl.program_id(0).to(tl.int64) + first
    row = tl.load(owners + block)
    entry = table + row * FIELDS
    start = (block - tl.load(entry + 3)) * BLOCK
    left = tl.minimum(tl.load(entry + 2) - start, BLOCK).to(tl.int32)
    place = tl.arange(0, DEPTH)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    inside = place < left
    values = _load(tl.load(entry), start, place, inside, KIND)
    if SUBTRACT:
        values -= _load(tl.load(entry + 1), start, place, inside, KIND)
    if SCALE:
        values *= tl.load(tl.load(entry + 4).to(tl.pointer_type(tl.float32)))
    counters = rows + row * WORDS
    finite = tl.abs(values) < float("inf")  # what lies behind the tensor is NaN
    kept = tl.where(finite, values, 0.0)
    narrow = kept.to(tl.float32)
    binned = narrow != 0
    if KIND == _FLOAT64:
        binned = binned & (tl.abs(narrow) < float("inf"))
    numbers = _count(tl.where(finite, 1, 0) + tl.where(binned, 1 << 16, 0))
    n, n_binned = numbers & 0xFFFF, numbers >> 16
    if n < left:
        _add_to(counters + _NAN, _count(tl.where(inside & (values != values), 1, 0)))  # noqa: PLR0124
        _add_to(counters + _PLUS_INFINITY, _count(tl.where(values == float("inf"), 1, 0)))
        _add_to(counters + _MINUS_INFINITY, _count(tl.where(values == float("-inf"), 1, 0)))
    if n_binned < n:
        _add_to(counters + _ZERO, _count(tl.where(finite & (kept == 0), 1, 0)))
        if KIND == _FLOAT64:
            huge, tiny = tl.abs(narrow) == float("inf"), narrow == 0
            _add_to(counters + _PLUS_OVERFLOW, _count(tl.where(huge & (kept > 0), 1, 0)))
            _add_to(counters + _MINUS_OVERFLOW, _count(tl.where(huge & (kept < 0), 1, 0)))
            _add_to(counters + _PLUS_UNDERFLOW, _count(tl.where(tiny & (kept > 0), 1, 0)))
            _add_to(counters + _MINUS_UNDERFLOW, _count(tl.where(tiny & (kept < 0), 1, 0)))
    _find_moments(kept, finite, n, partials + block * FOUND, KIND)
    bits = tl.where(binned, narrow.to(tl.int32, bitcast=True), _NO_BIN)
    _count_bins(bits, _count(tl.where(binned, bits >> _SHIFT & _MAGNITUDE, 0)) // tl.maximum(n_binned, 1), counters)


@triton.jit
def _load(address, start, place, inside, KIND: tl.constexpr):
    """The elements as float32, or as float64 if they are; NaN behind the tensor."""
    if KIND == _FLOAT64:
        values = tl.load(address.to(tl.pointer_type(tl.float64)) + start + place, mask=inside, other=float("nan"))
    elif KIND == _FLOAT16:
        values = tl.load(address.to(tl.pointer_type(tl.float16)) + start + place, mask=inside, other=float("nan"))
        values = values.to(tl.float32)
    elif KIND == _BFLOAT16:  # the upper half of a float32, on all devices
        halves = tl.load(address.to(tl.pointer_type(tl.int16)) + start + place, mask=inside, other=_NAN_HALF)
        values = (halves.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        values = tl.load(address.to(tl.pointer_type(tl.float32)) + start + place, mask=inside, other=float("nan"))
    return values


@triton.jit
def _find_moments(kept, finite, n, found, KIND: tl.constexpr):
    low = tl.min(tl.min(tl.where(finite, kept, float("inf")), axis=0), axis=0)
    high = tl.max(tl.max(tl.where(finite, kept, float("-inf")), axis=0), axis=0)
    # No sum leaves the dtype. The quotient may, by a rounding error.
    estimate = _count(kept * (1.0 / BLOCK)) * (BLOCK / tl.maximum(n, 1).to(tl.float32))
    centre = tl.where(n > 0, tl.minimum(tl.maximum(estimate, low), high), 0.0)
    peak = tl.where(n > 0, tl.maximum(-low, high), 0.0)
    if KIND == _FLOAT64:
        exponent = tl.minimum(tl.maximum((peak.to(tl.int64, bitcast=True) >> 52) - 1023, -1022), 1022)
        factor = ((1023 - exponent) << 52).to(tl.float64, bitcast=True)
    else:
        exponent = tl.minimum(tl.maximum((peak.to(tl.int32, bitcast=True) >> 23) - 127, -126), 126)
        factor = ((127 - exponent) << 23).to(tl.float32, bitcast=True)
    scaled, origin = kept * factor, centre * factor
    difference = tl.where(finite, scaled - origin, 0.0)
    tl.store(found, n.to(tl.float64))
    tl.store(found + 1, low.to(tl.float64))
    tl.store(found + 2, high.to(tl.float64))
    tl.store(found + 3, exponent.to(tl.float64))  # what follows is scaled by this power of two
    tl.store(found + 4, origin.to(tl.float64))
    tl.store(found + 5, _total(difference))
    tl.store(found + 6, _total(difference * difference))
    tl.store(found + 7, _total(tl.abs(scaled)))


@triton.jit
def _count_bins(bits, mean, counters):
    """Counts the bins of a block of float32, around the mean bin in fast memory."""
    base = tl.minimum(tl.maximum(mean - _BELOW_MEAN, 0), _MAX_BASE)
    code = bits >> _SHIFT
    within = code - base & _MAGNITUDE
    near = within < _WINDOW - 1
    counter = tl.where(near, within + 1 + tl.where(bits < 0, _WINDOW, 0), _NO_COUNTER)
    found = tl.histogram(tl.reshape(counter, [BLOCK]), 2 * _WINDOW)
    slot = tl.arange(0, 2 * _WINDOW)
    occupied = (slot % _WINDOW > 0) & (found > 0)
    bins = base + slot % _WINDOW - 1 + slot // _WINDOW * _SIGN_BIN
    tl.atomic_add(counters + bins, found, mask=occupied, sem="relaxed")
    beside = (near == 0) & (bits != _NO_BIN)
    tl.atomic_add(counters + (code & (2 * _SIGN_BIN - 1)), tl.where(near, 0, 1), mask=beside, sem="relaxed")


@triton.jit
def _count(numbers):
    return tl.sum(tl.sum(numbers, axis=0), axis=0)


@triton.jit
def _total(values):
    return tl.sum(tl.sum(values, axis=0).to(tl.float64), axis=0)


@triton.jit
def _add_to(counter, number):
    if number > 0:
        tl.atomic_add(counter, number, sem="relaxed")
