"""The index among a run's MLflow artifacts: the exact name of everything, and every histogram as a whole.

``index/<first seq>.jsonl`` has one JSON object a line for each artifact of a batch but the scalars: ``seq``,
``kind``, ``name``, ``step``, ``time_ns`` and the ``path`` of its file. A histogram's line holds the histogram
itself: ``bins`` are the sign, exponent and top 3 mantissa bits of float32 (its bits >> 20). After a crash two
parts can hold the same ``seq``, with the same content, and a part that a kill cut short ends in half a line.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tracker_adapters.artifacts import Histogram

INDEX_FOLDER = "index"
_COUNTS = (
    "count", "nan", "pos_inf", "neg_inf", "zero",
    "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
_MOMENTS = ("min", "max", "mean", "m2")


def read_index(client: Any, run_id: str, prefix: str = "") -> list[dict[str, Any]]:
    """Returns the lines of a run's index, each sequence number once, in order.

    Args:
        client: An MlflowClient.
        run_id: The MLflow run.
        prefix: The folder of our artifacts, ending in a slash; empty in a run of our own.
    """
    found: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="stepscope_") as folder:
        for part in client.list_artifacts(run_id, prefix + INDEX_FOLDER):
            text = Path(client.download_artifacts(run_id, part.path, folder)).read_text()
            found |= {line["seq"]: line for line in _whole_lines(text)}
    return [found[seq] for seq in sorted(found)]


def histograms_of(lines: Iterable[dict[str, Any]]) -> list[Histogram]:
    """Returns the histograms among the lines of an index."""
    return [_histogram(line) for line in lines if line["kind"] == Histogram.kind]


def histogram_fields(histogram: Histogram) -> dict[str, Any]:
    """Returns what ``histograms_of`` needs beside the fields that all lines have."""
    return {
        **{key: getattr(histogram, key) for key in _COUNTS},
        **{key: plain(getattr(histogram, key)) for key in _MOMENTS},
        "bins": histogram.bins.tolist(),
        "counts": histogram.counts.tolist(),
    }


def _histogram(line: dict[str, Any]) -> Histogram:
    numbers: dict[str, Any] = {key: line[key] for key in _COUNTS} | {key: float(line[key]) for key in _MOMENTS}
    return Histogram(
        name=line["name"],
        step=line["step"],
        time_ns=line["time_ns"],
        bins=np.array(line["bins"], dtype=np.uint16),
        counts=np.array(line["counts"], dtype=np.int64),
        **numbers,
    )


def plain(cell: object) -> object:
    """Returns a cell as JSON can hold it: non-finite floats become the words NaN, Infinity and -Infinity."""
    if not isinstance(cell, float) or math.isfinite(cell):
        return cell
    return "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"


def _whole_lines(part: str) -> Iterable[dict[str, Any]]:
    for text in part.splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:  # the rest of a part that a kill cut short
            return
