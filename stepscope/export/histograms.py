"""Histograms as columns of a tidy table, many at once."""

from collections.abc import Sequence

import numpy as np
from tracker_adapters.histograms.layout import MOMENTS, TALLIES
from tracker_adapters.store.segments.histogram_codec import decode

from stepscope.export.columns import PERCENTILES, Column


def histogram_columns(blobs: Sequence[bytes]) -> dict[str, Column]:
    """Returns the columns of ``TABLES["histograms"]`` behind ``time``, of histograms as the store keeps them.

    ``edges`` and ``counts`` are what ``Histogram.edges`` returns, and percentiles what ``Histogram.percentile`` does.

    Raises:
        RunError: When a blob holds no histogram.
    """
    columns = decode(blobs)
    tallies = dict(zip(TALLIES, columns.tallies.T, strict=True))
    moments = dict(zip(MOMENTS, columns.moments.T, strict=True))
    shapes = list(columns.shapes_and_percentiles(None, PERCENTILES))
    return {
        **{key: tallies[key] for key in ("count", "nan", "pos_inf", "neg_inf", "zero")},
        **{key: moments[key] for key in ("min", "max", "mean")},
        "std": columns.stds,
        **{f"p{q:02d}": np.array([found[place] for *_, found in shapes]) for place, q in enumerate(PERCENTILES)},
        "edges": [edges for edges, *_ in shapes],
        "counts": [counts for _, counts, _ in shapes],
    }
