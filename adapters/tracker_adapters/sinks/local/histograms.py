"""Writes many histograms as lines of JSON at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracker_adapters.contiguous_bins import merged_bins
from tracker_adapters.sink import HistogramColumns, HistogramRows
from tracker_adapters.sinks.local.lines import iso_times

MAX_BINS = 128
_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
_SHARES = np.array(_PERCENTILES) / 100


def histogram_lines(seqs: Sequence[int], rows: HistogramRows, attempt: int) -> bytes:
    """Returns the lines of ``histograms.jsonl``.

    ``edges`` and ``counts`` are the finite elements in at most 128 contiguous bins, one edge more than counts;
    ``count`` includes the non-finite ones. They and the percentiles are what ``Histogram.edges`` and
    ``Histogram.percentile`` give.
    """
    contents = (content for part in rows.columns.parts() for content in _contents(part))
    places = zip(rows.names, rows.steps.tolist(), iso_times(rows.times_ns), seqs, contents, strict=True)
    encode = msgspec.json.Encoder().encode
    return b"".join(
        encode({"name": name, "step": step, "time": time, "seq": seq, "attempt": attempt} | content) + b"\n"
        for name, step, time, seq, content in places
    )


def _contents(columns: HistogramColumns) -> Iterator[dict[str, Any]]:
    low, high, mean, m2 = columns.moments.T
    finite = columns.finite_counts
    with np.errstate(invalid="ignore", divide="ignore"):
        std = np.where(finite > 0, np.sqrt(m2 / finite), np.nan)
    ends, rights, counts = columns.intervals()
    ranks = np.outer(finite - 1, _SHARES)
    moments = zip(*(column.tolist() for column in (low, high, mean, std)), strict=True)
    rows = zip(columns.tallies.tolist(), moments, ends.tolist(), finite.tolist(), ranks, strict=True)
    start = 0
    for tallies, row_moments, end, number, row_ranks in rows:
        content: dict[str, Any] = dict(zip(("count", "nan", "pos_inf", "neg_inf", "zero"), tallies[:5], strict=True))
        content |= zip(("min", "max", "mean", "std"), map(_number, row_moments), strict=True)
        found: list[float] = [math.nan] * len(_PERCENTILES)
        edges, row_counts = np.empty(0), counts[start:end]
        if number:
            first = min(row_moments[0], float(np.nextafter(rights[start], -np.inf)))
            edges = np.concatenate([[first], rights[start:end]])
            found = _percentiles(edges, row_counts, row_ranks, row_moments[0], row_moments[1])
            edges, row_counts = merged_bins(edges, row_counts, MAX_BINS)
        content["percentiles"] = dict(zip(map(str, _PERCENTILES), map(_number, found), strict=True))
        # Only the first one can be infinite, where the smallest element is the last one of float64.
        content["edges"] = [*map(_number, edges[:1].tolist()), *edges[1:].tolist()]
        content["counts"] = row_counts.tolist()
        yield content
        start = end


def _percentiles(
    edges: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.float64],
    low: float,
    high: float,
) -> list[float]:
    """The middle of the interval that holds the element of each rank."""
    place = np.searchsorted(np.cumsum(counts), ranks, side="right")
    lefts = edges[place]
    found: list[float] = np.clip(lefts + (edges[place + 1] - lefts) / 2, low, high).tolist()
    return found


def _number(value: float) -> float | str:
    """A number as strict JSON can hold it."""
    return value if math.isfinite(value) else str(value)
