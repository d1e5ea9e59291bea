"""Measures host memory with the compiled kernel, large amounts in torch's threads. Importing this imports numba."""

from __future__ import annotations

import logging
import time
from functools import cache

import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import compile_cached, compile_for_threads
from tracker_adapters.histograms.columns import HistogramColumns

from debuggers.measurement.kernels import shares as measurement_shares
from debuggers.measurement.kernels.torch_threads import openmp, team_size
from debuggers.measurement.summary_table import SummaryTable

_log = logging.getLogger(__name__)
_MIN_SHARE = 1 << 16  # elements, 40 microseconds' work: as long as to start the threads and to join what they found
compiled_measure = compile_cached(measurement_shares.measure)


def measure_segments(segments: npt.NDArray[np.int64], elements: int) -> SummaryTable:
    """Measures tensors that lie in one or several segments of host memory each.

    Moments depend in their last bits on where the work is cut: on the lengths, and on how many threads torch uses.

    Args:
        segments: (k, 5), as ``kernels.rows`` has them; the caller keeps the memory alive.
        elements: The sum of their lengths.
    """
    if len(segments) == 0:
        return SummaryTable.of(())
    threads = team_size()
    number = max(1, min(threads, elements // _MIN_SHARE))
    tallies, moments, signed, l1, ends, bins, counts = compiled_measure(segments, number, openmp(), _work(), threads)
    return SummaryTable(
        HistogramColumns(tallies, moments, ends, bins, counts),
        negative=signed[0],
        positive=signed[1],
        l1=l1,
        local_shard=np.zeros(len(l1), np.bool_),
    )


@cache
def _work() -> int:
    begun = time.perf_counter()
    address = compile_for_threads(measurement_shares.work)
    compiled_measure(np.zeros((1, 5), np.int64), 1, 0, address, 1)
    _log.info("the kernel was compiled, or loaded, in %.2f s", time.perf_counter() - begun)
    return address
