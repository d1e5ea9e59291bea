"""Turns many histograms into TensorBoard's HistogramProto at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.summary_pb2 import HistogramProto

from tracker_adapters.sink import HistogramColumns
from tracker_adapters.sinks.tensorboard.wire import varint

MAX_BINS = 512
"""Bins of a histogram; a tensor of normally distributed values fills about 300."""
_BUCKET_LIMIT, _BUCKET = (
    bytes([HistogramProto.DESCRIPTOR.fields_by_name[name].number << 3 | 2]) for name in ("bucket_limit", "bucket")
)


def histogram_protos(columns: HistogramColumns) -> Iterator[bytes]:
    """Yields the serialised HistogramProto of each histogram.

    The arrays of edges and counts are put together here, from bytes that NumPy has already: handing them to protobuf
    number by number costs more than all the rest.
    """
    for part in columns.parts():
        yield from _protos(part)


def _protos(columns: HistogramColumns) -> Iterator[bytes]:
    low, high, mean, m2 = columns.moments.T
    finite = columns.finite_counts
    ends, rights, counts = columns.intervals()
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.where(finite > 0, mean * finite, 0.0)
        squares = np.where(finite > 0, m2 + np.square(mean) * finite, 0.0)
    limits, buckets = rights.astype("<f8"), counts.astype("<f8")
    start = 0
    rows = zip(ends.tolist(), *(column.tolist() for column in (low, high, finite, total, squares)), strict=True)
    for end, least, most, number, total_of_row, squares_of_row in rows:
        row_limits, row_buckets = limits[start:end], buckets[start:end]
        if end - start > MAX_BINS:
            row_limits, row_buckets = _merged(row_limits, row_buckets)
        size = varint(8 * row_limits.size)
        numbers = HistogramProto(min=least, max=most, num=number, sum=total_of_row, sum_squares=squares_of_row)
        arrays = (_BUCKET_LIMIT, size, row_limits.tobytes(), _BUCKET, size, row_buckets.tobytes())
        yield b"".join((numbers.SerializeToString(), *arrays))
        start = end


def _merged(
    limits: npt.NDArray[np.float64], buckets: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    bounds = np.linspace(0, limits.size, MAX_BINS + 1).astype(np.int64)
    return limits[bounds[1:] - 1], np.add.reduceat(buckets, bounds[:-1])
