"""Compiled code that finds mean, deviation and extremes of host memory while it copies it; importing it imports numba.

numba's cache notices changes of this file only: who changes another file of compiled code empties the ``__pycache__``
beside it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import OPTIONS, compile_cached, compile_for_threads

from debuggers.measurement.kernels.blocks import moments
from debuggers.measurement.kernels.joining import join_mean_and_m2
from debuggers.measurement.kernels.memory_access import array_at, run_in_team, take_ticket
from debuggers.measurement.kernels.torch_threads import openmp, team_size
from debuggers.torch_import import torch

_BLOCK = 2048  # stays in the first-level cache; sums of many more would lose digits in float32
_SHARE = 64 * _BLOCK
"""What a thread takes at a time. The result depends on it, and not on how many threads there are."""
_TINY = 1e-28  # squares in float32 lose digits below
_COUNT, _MEAN, _M2, _MIN, _MAX = range(5)  # columns of a share's row; the count is 0 where something is not finite
_TICKET, _ADDRESS, _SIZE, _IS_DOUBLE, _ROWS, _COPY = range(6)  # of a job, int64 (6,)
_compile = numba.njit(**OPTIONS)
# Sums may be taken in any order; NaN and infinity keep their meaning.
_compile_sums = numba.njit(fastmath={"reassoc", "nsz", "contract"}, **OPTIONS)
_Array = npt.NDArray[Any]


@_compile_sums
def _look(  # noqa: PLR0917
    block: _Array, copy: _Array, signed: _Array, unsigned: _Array, ends_signed: _Array, ends_unsigned: _Array
) -> Any:
    """Copies a block and returns its sum; finds the ends as ``blocks.extremes`` does.

    In one loop, because this is where the memory is waited for.
    """
    total = block.dtype.type(0)
    bottom_signed = top_signed = signed[0]
    bottom = top = unsigned[0]
    for i in range(block.size):
        copy[i] = block[i]
        total += block[i]
        bottom_signed = signed[i] if signed[i] < bottom_signed else bottom_signed
        top_signed = signed[i] if signed[i] > top_signed else top_signed
        bottom = unsigned[i] if unsigned[i] < bottom else bottom
        top = unsigned[i] if unsigned[i] > top else top
    ends_unsigned[0] = bottom
    ends_signed[1] = top_signed
    ends_signed[2] = bottom_signed
    ends_unsigned[3] = top
    return total


@_compile_sums
def _deviations(block: _Array, mean: Any) -> Any:
    """The sums of the differences to a number near the mean, and of their squares."""
    total = squares = block.dtype.type(0)
    for i in range(block.size):
        difference = block[i] - mean
        total += difference
        squares += difference * difference
    return total, squares


@_compile
def _measure_share(values: _Array, copy: _Array, row: _Array, scratch: Any) -> None:
    """Joins the blocks by Chan's formula; without a ``copy`` each goes into the same scratch memory."""
    ends, signed, unsigned, spare = scratch
    count = mean = m2 = 0.0
    least, most = np.inf, -np.inf
    finite = True
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        target = copy[start : start + _BLOCK] if copy.size else spare[: block.size]
        total = _look(block, target, block.view(signed.dtype), block.view(unsigned.dtype), signed, unsigned)
        if not finite:
            continue
        near = block.dtype.type(total / block.size)
        rest, squares = _deviations(block, near)
        finite = abs(total) < np.inf and squares < np.inf
        low, high = ends.min(), ends.max()
        block_mean = np.float64(near) + np.float64(rest) / block.size
        block_m2 = np.float64(squares) - np.float64(rest) * rest / block.size
        if squares < _TINY and low != high:
            wide_total, wide_squares, _ = moments(block)
            block_mean = np.float64(block[0]) + wide_total / block.size
            block_m2 = wide_squares - wide_total * wide_total / block.size
        mean, m2 = join_mean_and_m2(count, mean, m2, block.size, block_mean, max(0.0, block_m2))
        count += block.size
        least, most = min(least, np.float64(low)), max(most, np.float64(high))
    row[_COUNT] = count if finite else 0.0
    row[_MEAN], row[_M2], row[_MIN], row[_MAX] = mean, m2, least, most


def _work(address: int) -> None:
    """Measures shares of the job at an address until none is left; several threads may do so at once."""
    job = array_at(address, np.empty(0, np.int64), (6,))
    n_shares = -(-job[_SIZE] // _SHARE)
    rows = array_at(job[_ROWS], np.empty(0), (n_shares, 5))
    double, single = np.empty(4), np.empty(4, np.float32)
    in_double = double, double.view(np.int64), double.view(np.uint64), np.empty(_BLOCK)
    in_single = single, single.view(np.int32), single.view(np.uint32), np.empty(_BLOCK, np.float32)
    while True:
        turn = take_ticket(address)
        if turn >= n_shares:
            return
        begin = turn * _SHARE
        size = min(_SHARE, job[_SIZE] - begin)
        copied = size if job[_COPY] else 0
        offset = begin * (8 if job[_IS_DOUBLE] else 4)
        source, target = job[_ADDRESS] + offset, job[_COPY] + offset
        if job[_IS_DOUBLE]:
            values, copy = array_at(source, double, (size,)), array_at(target, double, (copied,))
            _measure_share(values, copy, rows[turn], in_double)
        else:
            values_single, copy_single = array_at(source, single, (size,)), array_at(target, single, (copied,))
            _measure_share(values_single, copy_single, rows[turn], in_single)


_work_here = _compile(_work)


def _measure(  # noqa: PLR0917
    address: int, size: int, is_double: bool, copy: int, team: int, function: int, threads: int
) -> Any:
    rows = np.zeros((-(-size // _SHARE), 5))
    job = np.empty(6, np.int64)
    job[_TICKET], job[_ADDRESS], job[_SIZE], job[_IS_DOUBLE], job[_COPY] = 0, address, size, is_double, copy
    job[_ROWS] = rows.ctypes.data
    if threads > 1 and len(rows) > 1:
        run_in_team(team, function, job.ctypes.data, threads)
    else:
        _work_here(job.ctypes.data)
    # numba frees an array after its last use: all that the job points to is used below.
    if job[_TICKET] < len(rows):
        raise MemoryError("there was no memory for the counters of the measuring kernel")
    count = mean = m2 = 0.0
    for row in rows:
        if row[_COUNT] == 0:
            return False, mean, m2, 0.0, 0.0
        mean, m2 = join_mean_and_m2(count, mean, m2, row[_COUNT], row[_MEAN], row[_M2])
        count += row[_COUNT]
    # Adding zero makes -0.0 positive.
    return np.isfinite(m2), mean, m2, rows[:, _MIN].min() + 0.0, rows[:, _MAX].max() + 0.0


compiled_measure = compile_cached(_measure)


def spread_of(values: torch.Tensor, copy: torch.Tensor | None = None) -> tuple[float, float, float, float] | None:
    """Returns mean, std (with Bessel's correction), min and max of float32 or float64 values.

    Sums of a block of 2,048 are formed in the values' own dtype, relative to the block's mean, and joined in float64:
    mean and std are right to 1e-6 of the std. None where a value is NaN or infinite, or a sum leaves the dtype.

    Args:
        values: At least two on the host, dense in any order of the dimensions.
        copy: What the values are copied to, whatever they are; of the same shape, strides and dtype.
    """
    size, is_double = values.numel(), values.dtype == torch.float64
    target = 0 if copy is None else copy.data_ptr()
    finite, mean, m2, low, high = compiled_measure(
        values.data_ptr(), size, is_double, target, openmp(), _team_work(), team_size()
    )
    return (mean, math.sqrt(m2 / (size - 1)), low, high) if finite else None


@cache
def _team_work() -> int:
    return compile_for_threads(_work)
