"""Turns many histograms into TensorBoard's HistogramProto at once."""

from collections.abc import Iterator

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto

from tracker_adapters.formats.protobuf import varint
from tracker_adapters.sink import HistogramColumns

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
    low, high, mean, m2 = columns.moments.T
    finite = columns.finite_counts
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.where(finite > 0, mean * finite, 0.0)
        squares = np.where(finite > 0, m2 + np.square(mean) * finite, 0.0)
    moments = zip(*(column.tolist() for column in (low, high, finite, total, squares)), strict=True)
    for row, (rights, counts) in zip(moments, columns.intervals_by_row(MAX_BINS), strict=True):
        least, most, number, total_of_row, squares_of_row = row
        numbers = HistogramProto(min=least, max=most, num=number, sum=total_of_row, sum_squares=squares_of_row)
        size = varint(8 * rights.size)
        arrays = (_BUCKET_LIMIT, size, rights.astype("<f8").tobytes(), _BUCKET, size, counts.astype("<f8").tobytes())
        yield b"".join((numbers.SerializeToString(), *arrays))
