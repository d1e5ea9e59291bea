"""Histograms as columns of a tidy table, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import MOMENTS, TALLIES, HistogramColumns
from tracker_adapters.store.segments.histogram_codec import decode

from stepscope.export.columns import PERCENTILES, Column

_Floats = npt.NDArray[np.float64]


def histogram_columns(blobs: Sequence[bytes]) -> dict[str, Column]:
    """Returns the columns of ``TABLES["histograms"]`` behind ``time``, of histograms as the store keeps them.

    ``edges`` and ``counts`` are what ``Histogram.edges`` returns, and percentiles what ``Histogram.percentile`` does.

    Raises:
        RunError: When a blob holds no histogram.
    """
    columns = decode(blobs)
    tallies = dict(zip(TALLIES, columns.tallies.T, strict=True))
    moments = dict(zip(MOMENTS, columns.moments.T, strict=True))
    finite = columns.finite_counts
    with np.errstate(invalid="ignore", divide="ignore"):
        std = np.where(finite > 0, np.sqrt(moments["m2"] / finite), np.nan)
    edges, counts, percentiles = _intervals(columns, moments["min"], moments["max"])
    return {
        **{key: tallies[key] for key in ("count", "nan", "pos_inf", "neg_inf", "zero")},
        **{key: moments[key] for key in ("min", "max", "mean")},
        "std": std,
        **{f"p{q:02d}": percentiles[:, place] for place, q in enumerate(PERCENTILES)},
        "edges": edges,
        "counts": counts,
    }


def _intervals(columns: HistogramColumns, low: _Floats, high: _Floats) -> tuple[list[Any], list[Any], _Floats]:
    ends, rights, counts = columns.intervals()
    edges_of, counts_of = [], []
    percentiles = np.full((len(columns), len(PERCENTILES)), np.nan)
    start = 0
    for row, end in enumerate(ends.tolist()):
        if end == start:  # no finite element
            edges_of.append(np.empty(0))
            counts_of.append(np.empty(0, np.int64))
            continue
        held = counts[start:end]
        edges = np.empty(end - start + 1)
        edges[0] = min(low[row], np.nextafter(rights[start], -np.inf))
        edges[1:] = rights[start:end]
        edges_of.append(edges)
        counts_of.append(held)
        total = np.cumsum(held)
        picked = np.searchsorted(total, _SHARES * (int(total[-1]) - 1), side="right")
        percentiles[row] = np.clip(edges[picked] + (edges[picked + 1] - edges[picked]) / 2, low[row], high[row])
        start = end
    return edges_of, counts_of, percentiles


_SHARES = np.array(PERCENTILES) / 100
