"""Writes many histograms as lines of JSON at once."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tracker_adapters.sink import HistogramColumns, HistogramRows
from tracker_adapters.sinks.local.lines import iso_times

MAX_BINS = 128
_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def histogram_lines(seqs: Sequence[int], rows: HistogramRows, attempt: int) -> bytes:
    """Returns the lines of ``histograms.jsonl``.

    ``edges`` and ``counts`` are the finite elements in at most 128 contiguous bins, one edge more than counts;
    ``count`` includes the non-finite ones. They and the percentiles are what ``Histogram.edges`` and
    ``Histogram.percentile`` give.
    """
    contents = _contents(rows.columns)
    places = zip(rows.names, rows.steps.tolist(), iso_times(rows.times_ns), seqs, contents, strict=True)
    encode = msgspec.json.Encoder().encode
    return b"".join(
        encode({"name": name, "step": step, "time": time, "seq": seq, "attempt": attempt} | content) + b"\n"
        for name, step, time, seq, content in places
    )


def _contents(columns: HistogramColumns) -> Iterator[dict[str, Any]]:
    low, high, mean, _ = columns.moments.T
    moments = zip(*(column.tolist() for column in (low, high, mean, columns.stds)), strict=True)
    rows = zip(columns.tallies.tolist(), moments, columns.shapes_and_percentiles(MAX_BINS, _PERCENTILES), strict=True)
    for tallies, row_moments, (edges, counts, percentiles) in rows:
        content: dict[str, Any] = dict(zip(("count", "nan", "pos_inf", "neg_inf", "zero"), tallies[:5], strict=True))
        content |= zip(("min", "max", "mean", "std"), map(_number, row_moments), strict=True)
        content["percentiles"] = dict(zip(map(str, _PERCENTILES), map(_number, percentiles.tolist()), strict=True))
        content["edges"] = edges.tolist()
        content["counts"] = counts.tolist()
        yield content


def _number(value: float) -> float | str:
    """A number as strict JSON can hold it."""
    return value if math.isfinite(value) else str(value)
