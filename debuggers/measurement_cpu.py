"""Measures host memory with the compiled kernel, large amounts in threads. Importing this module imports numba."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import compile_cached
from tracker_adapters.histogram_columns import MOMENTS, TALLIES, HistogramColumns

from debuggers import measurement_kernel
from debuggers.summary_table import SummaryTable

_log = logging.getLogger(__name__)
_measure = compile_cached(measurement_kernel.measure)
_MIN_SHARE = 1 << 21  # elements, a millisecond's work: starting a thread and merging what it found costs a third
_ROW, _ADDRESS, _LENGTH, _IS_DOUBLE = range(4)
Segments = npt.NDArray[np.int64]


def measure_shares(segments: Segments, elements: int, max_threads: int) -> list[tuple[int, SummaryTable]]:
    """Measures tensors in threads that end with the call, each an equal share of the elements.

    Args:
        segments: See ``measure_segments``.
        elements: The sum of their lengths.
        max_threads: How many threads to use at most, this one included.

    Returns:
        Tables of consecutive rows, each with the number of its first row; the last row of one is the first row of the
        next where a tensor was cut. Where they are cut depends on the arguments alone.
    """
    number = min(max_threads, elements // _MIN_SHARE)
    if number < 2:
        return [(0, measure_segments(segments))]
    shares = _cut(segments, number)
    tables: list[SummaryTable | None] = [None] * len(shares)

    def work(share: int) -> None:
        tables[share] = measure_segments(shares[share][1])

    threads = [threading.Thread(target=work, args=(share,)) for share in range(1, len(shares))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    # A thread that failed, for want of memory, fails again here, where the caller sees it.
    return [
        (first, table if table is not None else measure_segments(share))
        for (first, share), table in zip(shares, tables, strict=True)
    ]


def measure_segments(segments: Segments) -> SummaryTable:
    """Measures tensors that lie in one or several segments of host memory each.

    Args:
        segments: (k, 4), ordered by row: the tensor's row in the table, from 0 on without gaps; the address, which
            the caller keeps alive; the number of contiguous elements; 1 for float64 and 0 for float32. A tensor has
            fewer than 2**33 elements.
    """
    n = int(segments[-1, _ROW]) + 1 if len(segments) else 0
    tallies, moments = np.zeros((n, len(TALLIES)), np.int64), np.empty((n, len(MOMENTS)))
    signed, l1, ends = np.empty((2, n), np.int64), np.empty(n), np.empty(n, np.int64)
    is_new, begun = not _measure.overloads, time.perf_counter()
    bins, counts = _measure(segments, tallies, moments, signed, l1, ends)
    if is_new:
        _log.info("the kernel was compiled, or loaded, in %.2f s", time.perf_counter() - begun)
    return SummaryTable(
        HistogramColumns(tallies, moments, ends, bins, counts),
        negative=signed[0],
        positive=signed[1],
        l1=l1,
        local_shard=np.zeros(n, np.bool_),
    )


def _cut(segments: Segments, number: int) -> list[tuple[int, Segments]]:
    """Cuts segments into shares of equal length, large ones between blocks; rows count from each share's first."""
    shares: list[tuple[int, Segments]] = []
    rest = segments
    for left in range(number, 1, -1):
        ends = np.cumsum(rest[:, _LENGTH])
        wanted = int(ends[-1]) // left
        place = int(np.searchsorted(ends, wanted, side="right"))
        inside = wanted - (int(ends[place - 1]) if place else 0)
        inside -= inside % measurement_kernel.BLOCK
        share, rest = rest[:place], rest[place:].copy()
        if inside:
            share = np.concatenate([share, rest[:1]])
            share[-1, _LENGTH] = inside
            rest[0, _LENGTH] -= inside
            rest[0, _ADDRESS] += inside * (8 if rest[0, _IS_DOUBLE] else 4)
        if len(share):
            shares.append(_numbered(share))
    return [*shares, _numbered(rest)]


def _numbered(share: Segments) -> tuple[int, Segments]:
    first = int(share[0, _ROW]) if len(share) else 0
    share = share.copy()
    share[:, _ROW] -= first
    return first, share
