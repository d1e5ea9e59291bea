"""The kernel that joins what was found of the blocks of each tensor; see the package."""

import triton
import triton.language as tl
from tracker_adapters.histograms.layout import N_BINS

from debuggers.measurement.kernels.gpu.blocks import BLOCK, FIELDS, FOUND, WORDS

_AT_ONCE = tl.constexpr(512)
_N_BINS = tl.constexpr(N_BINS)
_NEARLY_INFINITE = tl.constexpr(1e300)


@triton.jit
def join_blocks(table, rows, partials):
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(table + row * FIELDS + 3)
    blocks = ((tl.load(table + row * FIELDS + 2) + BLOCK - 1) // BLOCK).to(tl.int32)
    found = partials + first * FOUND
    zeros = tl.zeros([_AT_ONCE], tl.float64)
    n, l1, low, high, references = zeros, zeros, zeros + float("inf"), zeros - float("inf"), zeros - float("inf")
    for start in range(0, blocks, _AT_ONCE):
        count, mean, _, magnitudes = _load_moments(found, start, blocks)
        here, inside = _place(found, start, blocks)
        n += count
        low = tl.minimum(low, tl.load(here + 1, mask=inside, other=float("inf")))
        high = tl.maximum(high, tl.load(here + 2, mask=inside, other=float("-inf")))
        references = tl.maximum(references, tl.where(count > 0, mean, float("-inf")))
        l1 += magnitudes
    size = tl.maximum(tl.sum(n, axis=0), 1.0)
    least, most = tl.min(low, axis=0), tl.max(high, axis=0)
    # Differences of means at the two ends of float64 would leave it.
    factor = tl.where(tl.maximum(-least, most) > _NEARLY_INFINITE, 0.25, 1.0)
    # Relative to one of the means, so that equal means stay what they are.
    reference = tl.max(references, axis=0) * factor
    shifts = zeros
    for start in range(0, blocks, _AT_ONCE):
        count, mean, _, _ = _load_moments(found, start, blocks)
        shifts += tl.where(count > 0, (mean * factor - reference) * (count / size), 0.0)
    shift = tl.sum(shifts, axis=0)
    total = zeros
    for start in range(0, blocks, _AT_ONCE):
        count, mean, m2, _ = _load_moments(found, start, blocks)
        away = (mean * factor - reference - shift) / factor
        total += m2 + tl.where(count > 0, away * away * count, 0.0)
    moments = (rows + row * WORDS + _N_BINS).to(tl.pointer_type(tl.float64))
    tl.store(moments, least)
    tl.store(moments + 1, most)
    tl.store(moments + 2, (reference + shift) / factor)
    tl.store(moments + 3, tl.sum(total, axis=0))
    tl.store(moments + 4, tl.sum(l1, axis=0))


@triton.jit
def _place(found, start, blocks):
    lane = start + tl.arange(0, _AT_ONCE)
    return found + lane.to(tl.int64) * FOUND, lane < blocks


@triton.jit
def _load_moments(found, start, blocks):
    """Numbers of elements, means, m2 and sums of magnitudes of some blocks; 0 where there is none."""
    here, inside = _place(found, start, blocks)
    count = tl.load(here, mask=inside, other=0.0)
    exponent = tl.load(here + 3, mask=inside, other=0.0).to(tl.int64)
    total = tl.load(here + 5, mask=inside, other=0.0)
    squares = tl.load(here + 6, mask=inside, other=0.0)
    scale = ((exponent + 1023) << 52).to(tl.float64, bitcast=True)
    divisor = tl.maximum(count, 1.0)
    mean = (tl.load(here + 4, mask=inside, other=0.0) + total / divisor) * scale
    m2 = tl.maximum(squares - total * total / divisor, 0.0) * scale * scale
    return count, mean, m2, tl.load(here + 7, mask=inside, other=0.0) * scale
