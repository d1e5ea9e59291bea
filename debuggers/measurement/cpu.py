"""Measures host memory with the compiled kernel, large amounts in torch's threads."""

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.native.extension import kernels

from debuggers.measurement.kernels.torch_threads import team
from debuggers.measurement.summary_table import SummaryTable

_MIN_SHARE = 1 << 16  # elements, 30 microseconds' work: as long as to start the threads and to join what they found
_DTYPES = (np.int64, np.float64, np.int64, np.float64, np.int64, np.uint16, np.int64)


def measure_segments(segments: npt.NDArray[np.int64], elements: int) -> SummaryTable:
    """Measures tensors that lie in one or several segments of host memory each.

    Moments depend in their last bits on where the work is cut: on the lengths, and on how many threads torch uses. They
    do not depend on the processor. Needs the compiled code; see ``kernels.availability``.

    Args:
        segments: int64 (k, 5), as ``tracker_adapters.native._kernels.measure`` has them; the caller keeps the memory
            alive.
        elements: The sum of their lengths.
    """
    if len(segments) == 0:
        return SummaryTable.of(())
    start, threads = team()
    number = max(1, min(threads, elements // _MIN_SHARE))
    found = kernels().measure(segments, number, start, threads)  # type: ignore[union-attr]
    tallies, moments, signs, l1, ends, bins, counts = map(np.frombuffer, found, _DTYPES)
    negative, positive = signs.reshape(2, -1)
    return SummaryTable(
        HistogramColumns(tallies.reshape(len(ends), -1), moments.reshape(len(ends), -1), ends, bins, counts),
        negative=negative,
        positive=positive,
        l1=l1,
        local_shard=np.zeros(len(ends), np.bool_),
    )
