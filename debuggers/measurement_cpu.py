"""Measures host memory with the compiled kernel. Importing this module imports numba."""

from __future__ import annotations

import logging
import time

import numpy as np
import numpy.typing as npt
from tracker_adapters.histogram_columns import MOMENTS, TALLIES, HistogramColumns

from debuggers import measurement_kernel
from debuggers.compilation import compile_cached
from debuggers.summary_table import SummaryTable

_log = logging.getLogger(__name__)
_measure = compile_cached(measurement_kernel.measure)


def measure_segments(segments: npt.NDArray[np.int64]) -> SummaryTable:
    """Measures tensors that lie in one or several segments of host memory each.

    Args:
        segments: (k, 4), ordered by row: the tensor's row in the table, from 0 on without gaps; the address, which
            the caller keeps alive; the number of contiguous elements; 1 for float64 and 0 for float32. A tensor has
            fewer than 2**33 elements.
    """
    n = int(segments[-1, 0]) + 1 if len(segments) else 0
    tallies, moments = np.zeros((n, len(TALLIES)), np.int64), np.empty((n, len(MOMENTS)))
    signed, l1, ends = np.empty((2, n), np.int64), np.empty(n), np.empty(n, np.int64)
    room = int(np.minimum(segments[:, 2], measurement_kernel.BINS).sum())
    bins, counts = np.empty(room, np.uint16), np.empty(room, np.int64)
    is_new, begun = not _measure.signatures, time.perf_counter()
    _measure(segments, tallies, moments, signed, l1, ends, bins, counts)
    if is_new:
        _log.info("the kernel was compiled, or loaded, in %.2f s", time.perf_counter() - begun)
    end = int(ends[-1]) if n else 0
    return SummaryTable(
        # Copies: what is kept must not keep all the room.
        HistogramColumns(tallies, moments, ends, bins[:end].copy(), counts[:end].copy()),
        negative=signed[0],
        positive=signed[1],
        l1=l1,
        local_shard=np.zeros(n, np.bool_),
    )
