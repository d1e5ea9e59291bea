"""The index among a run's MLflow artifacts: the exact name of everything, and every histogram as a whole.

``index/<first seq>.jsonl`` has one JSON object a line for each artifact but the scalars: ``seq``, ``kind``, ``name``,
``step``, ``time_ns`` and the ``path`` of its file. A histogram's line holds the histogram itself: ``bins`` are the
sign, exponent and top 3 mantissa bits of float32 (its bits >> 20). A part is replaced by a longer one until it is
full, since MLflow cannot append. After a crash two parts can hold the same ``seq``, with the same content, and a part
that a kill cut short ends in half a line.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tracker_adapters.artifacts import Histogram

INDEX_FOLDER = "index"
MAX_PART_BYTES = 1024 * 1024
_COUNTS = (
    "count", "nan", "pos_inf", "neg_inf", "zero",
    "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow",
)  # fmt: skip
_MOMENTS = ("min", "max", "mean", "m2")


@dataclass(slots=True)
class IndexEnd:
    """Where the index ends: the number in the last part's name, 0 before the first, and the bytes of that part."""

    part: int = 0
    size: int = 0


class IndexParts:
    """Lays the lines of an index into parts: a part takes lines until it holds ``MAX_PART_BYTES``."""

    def __init__(self, end: IndexEnd, content: bytes) -> None:
        """Goes on at ``end``; ``content`` is what the last part holds, shorter when it is not there any more."""
        self.end = end
        self._content = content[: end.size]
        self._whole = len(self._content) == end.size

    def add(self, first_seq: int, lines: bytes) -> tuple[str, bytes]:
        """Appends lines, the first of them from ``first_seq`` on; returns the path and content of their part."""
        if not self.end.part or not self._whole or self.end.size >= MAX_PART_BYTES:
            self.end, self._content, self._whole = IndexEnd(first_seq), b"", True
        self._content += lines
        self.end = IndexEnd(self.end.part, len(self._content))
        return part_path(self.end.part), self._content


def part_path(part: int) -> str:
    """Returns the path of a part below the folder of our artifacts."""
    return f"{INDEX_FOLDER}/{part:012d}.jsonl"


def read_index(
    client: Any, run_id: str, prefix: str = "", *, end: IndexEnd | None = None, budget_s: float = math.inf
) -> list[dict[str, Any]]:
    """Returns the lines of a run's index, each sequence number once, in order.

    Args:
        client: An MlflowClient.
        run_id: The MLflow run.
        prefix: The folder of our artifacts, ending in a slash; empty in a run of our own.
        end: Where to stop; None reads everything.
        budget_s: Seconds, checked before each part.

    Raises:
        TimeoutError: When they are over.
    """
    deadline = time.monotonic() + budget_s
    found: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="stepscope_") as folder:
        for entry in client.list_artifacts(run_id, prefix + INDEX_FOLDER):
            number = PurePosixPath(entry.path).stem
            if not number.isdecimal():  # a file of somebody else's
                continue
            part = int(number)
            if end is not None and part > end.part:
                continue
            if time.monotonic() > deadline:
                raise TimeoutError(f"reading the index of MLflow run {run_id} took more than {budget_s:g} s")
            content = Path(client.download_artifacts(run_id, entry.path, folder)).read_bytes()
            if end is not None and part == end.part:
                content = content[: end.size]
            found |= {line["seq"]: line for line in _whole_lines(content)}
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


def _whole_lines(part: bytes) -> Iterable[dict[str, Any]]:
    for text in part.splitlines():
        try:
            yield json.loads(text)
        except ValueError:  # the rest of a part that a kill cut short
            return
