"""How histograms become blobs, and blobs histograms: many at once, without a Python object for each bin.

A blob holds the moments of ``HistogramColumns`` as little-endian float64, then varints (LEB128: seven bits a byte,
lowest first, the eighth bit set on all bytes but the last): the tallies, and for each occupied bin ``2 * (count - 1)``.
Where bins lie between it and the one before (at first, before bin 0), 1 is added and ``2 * (how many - 1)`` follows.
250 bins of a million normally distributed values take about 600 bytes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import DamagedError
from tracker_adapters.histograms.columns import AT_ONCE, HistogramColumns
from tracker_adapters.histograms.faults import fault_in
from tracker_adapters.histograms.layout import MOMENTS, N_BINS, TALLIES
from tracker_adapters.native.extension import kernels

_MOMENT_BYTES = 8 * len(MOMENTS)
_LONGEST_VARINT = 10


def encode(columns: HistogramColumns) -> list[bytes]:
    """Returns a blob for each of the histograms."""
    native = kernels()
    if native is None:
        return [blob for part in columns.parts() for blob in _encoded(part)]
    arrays = (columns.tallies, columns.moments.astype("<f8", copy=False), columns.ends, columns.bins, columns.counts)
    return native.pack(*map(np.ascontiguousarray, arrays))  # type: ignore[no-any-return]


def decode(blobs: Sequence[bytes]) -> HistogramColumns:
    """Returns the histograms of blobs.

    Raises:
        DamagedError: When a blob holds no histogram, because its file is damaged or somebody else's.
    """
    return HistogramColumns.joined(
        [_decoded(blobs[start : start + AT_ONCE]) for start in range(0, max(len(blobs), 1), AT_ONCE)]
    )


def _encoded(columns: HistogramColumns) -> list[bytes]:
    n = len(columns)
    values, ends = _numbers(columns)
    sizes = np.ones(values.size, np.int64)
    for limit in (1 << shift for shift in range(7, 64, 7)):
        longer = values >= np.uint64(limit)
        if not longer.any():
            break
        sizes += longer
    # Each blob starts with its moments, so a varint lies behind its row's and those of the rows before.
    stops = np.cumsum(sizes)
    blob_ends = stops[ends - 1] + _MOMENT_BYTES * np.arange(1, n + 1)
    starts = stops - sizes + _MOMENT_BYTES * np.repeat(np.arange(1, n + 1), np.diff(ends, prepend=0))
    buffer = np.empty(int(blob_ends[-1]) if n else 0, np.uint8)
    while values.size:
        more = values >= 128
        buffer[starts] = (values & np.uint64(127)).astype(np.uint8) | (more.view(np.uint8) << 7)
        values, starts = values[more] >> np.uint64(7), starts[more] + 1
    blob_starts = np.concatenate([[0], blob_ends[:-1]])[:n]
    moments = columns.moments.astype("<f8").view(np.uint8).reshape(n, _MOMENT_BYTES)
    buffer[blob_starts[:, None] + np.arange(_MOMENT_BYTES)] = moments
    whole = buffer.tobytes()
    return [whole[start:end] for start, end in zip(blob_starts.tolist(), blob_ends.tolist(), strict=True)]


def _decoded(blobs: Sequence[bytes]) -> HistogramColumns:
    n = len(blobs)
    if not all(isinstance(blob, bytes) for blob in blobs):
        raise DamagedError("the run store holds a histogram without data; its file is damaged")
    data = np.frombuffer(b"".join(blobs), np.uint8)
    sizes = np.fromiter(map(len, blobs), np.int64, n)
    blob_ends = np.cumsum(sizes)
    blob_starts = blob_ends - sizes
    if (sizes < _MOMENT_BYTES + len(TALLIES)).any() or (data[blob_ends - 1] >= 128).any():
        raise DamagedError("the run store holds a histogram that ends too early; its file is damaged")
    in_moments = blob_starts[:, None] + np.arange(_MOMENT_BYTES)
    moments = data[in_moments].view("<f8").astype(np.float64)
    is_end = data < 128
    is_end[in_moments] = False
    stops = np.flatnonzero(is_end)
    ends = np.searchsorted(stops, blob_ends)
    columns = _columns(_varints(data, stops, blob_starts, ends), ends, moments)
    fault = fault_in(columns)
    if fault is not None:
        raise DamagedError(f"the run store holds a damaged histogram: {fault[1]}")
    return columns


def _numbers(columns: HistogramColumns) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The numbers that become varints, of all rows, and where those of each row end."""
    n, bins = len(columns), columns.bins.astype(np.int64)
    row_starts = np.concatenate([[0], columns.ends[:-1]])[:n]
    hidden = np.diff(bins, prepend=0) - 1
    first = row_starts[row_starts < columns.ends]
    hidden[first] = bins[first]
    after_gap = hidden > 0
    heads = np.arange(1, n + 1) * len(TALLIES)
    places = np.concatenate([[0], np.cumsum(1 + after_gap)])
    ends = places[columns.ends] + heads
    values = np.empty(int(ends[-1]) if n else 0, np.uint64)
    values[(ends - np.diff(ends, prepend=0))[:, None] + np.arange(len(TALLIES))] = columns.tallies.view(np.uint64)
    places = places[:-1] + np.repeat(heads, np.diff(columns.ends, prepend=0))
    values[places] = ((columns.counts.view(np.uint64) - np.uint64(1)) << np.uint64(1)) | after_gap
    values[places[after_gap] + 1] = (hidden[after_gap] - 1) << 1
    return values, ends


def _varints(
    data: npt.NDArray[np.uint8],
    stops: npt.NDArray[np.int64],
    blob_starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """The varints whose last bytes lie at ``stops``; each blob's moments lie before its first."""
    starts = np.empty_like(stops)
    starts[1:] = stops[:-1] + 1
    starts[np.concatenate([[0], ends[:-1]])[: len(ends)]] = blob_starts + _MOMENT_BYTES
    sizes = stops - starts + 1
    longest = int(sizes.max(initial=0))
    if longest > _LONGEST_VARINT:
        raise DamagedError("the run store holds a histogram with a number beyond 64 bits; its file is damaged")
    values = (data[starts] & 127).astype(np.uint64)
    for place in range(1, longest):
        rows = np.flatnonzero(sizes > place)
        values[rows] |= (data[starts[rows] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
    return values


def _columns(
    values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], moments: npt.NDArray[np.float64]
) -> HistogramColumns:
    n = len(ends)
    heads = np.arange(1, n + 1) * len(TALLIES)
    numbers_in = np.diff(ends, prepend=0)
    if (numbers_in < len(TALLIES)).any():
        raise DamagedError("the run store holds a histogram with too few numbers; its file is damaged")
    in_heads = (ends - numbers_in)[:, None] + np.arange(len(TALLIES))
    of_bins = np.ones(values.size, np.bool_)
    of_bins[in_heads] = False
    numbers = values[of_bins]
    number_ends = ends - heads
    odd = (numbers & np.uint64(1)).astype(np.bool_)
    filled = np.diff(number_ends, prepend=0) > 0
    if odd[number_ends[filled] - 1].any():
        raise DamagedError("the run store holds a histogram that ends within a gap; its file is damaged")
    is_count = np.ones(numbers.size, np.bool_)
    is_count[1:] = ~odd[:-1]
    places = np.flatnonzero(is_count)
    halves = (numbers >> np.uint64(1)).view(np.int64)
    steps = np.ones(places.size, np.int64)
    after_gap = np.flatnonzero(odd[places])
    steps[after_gap] += halves[places[after_gap] + 1] + 1
    bin_ends = np.searchsorted(places, number_ends)
    reached = np.concatenate([[0], np.cumsum(steps)])
    lengths = np.diff(bin_ends, prepend=0)
    bins = reached[1:] - np.repeat(reached[bin_ends - lengths], lengths) - 1
    if bins.size and not 0 <= int(bins.min()) <= int(bins.max()) < N_BINS:
        raise DamagedError(f"the run store holds a histogram with bins beyond {N_BINS - 1}; its file is damaged")
    return HistogramColumns(
        tallies=values[in_heads].view(np.int64),
        moments=moments,
        ends=bin_ends,
        bins=bins.astype(np.uint16),
        counts=halves[places] + 1,
    )
