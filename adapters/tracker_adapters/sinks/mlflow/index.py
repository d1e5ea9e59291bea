"""The index among a run's MLflow artifacts: the exact name of everything, and every histogram as a whole.

``index/<first seq>.jsonl`` has one JSON object a line for each artifact but the scalars: ``seq``, ``kind``, ``name``,
``step``, ``time_ns`` and the ``path`` of its file. A histogram's line holds the histogram itself: ``bins`` are the
sign, exponent and top 3 mantissa bits of float32 (its bits >> 20). A part is replaced by a longer one until it is
full, since MLflow cannot append. After a crash two parts can hold the same ``seq``, with the same content, and a part
that a kill cut short ends in half a line.
"""

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

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


class IndexFiles(Protocol):
    """Where parts lie."""

    def names(self, folder: str) -> list[str]:
        """Returns the names of what lies in a folder."""
        ...

    def read(self, path: str) -> bytes:
        """Returns a file's content."""
        ...


class Index:
    """The index of one MLflow run, up to where it ends: a part takes lines until it holds ``MAX_PART_BYTES``.

    What an earlier process left is listed once, when it is needed, and its last part is read once.
    """

    def __init__(self, files: IndexFiles, end: IndexEnd) -> None:
        """Goes on at ``end``."""
        self.end = end
        self._files = files
        self._parts: list[int] | None = None if end.part else []
        self._content = b""

    def add(self, first_seq: int, lines: bytes) -> tuple[str, bytes]:
        """Appends lines, the first of them from ``first_seq`` on; returns the path and content of their part."""
        parts = self._load()
        is_whole = len(self._content) == self.end.size  # else somebody has deleted or cut it
        if not self.end.part or not is_whole or self.end.size >= MAX_PART_BYTES:
            self.end, self._content = IndexEnd(first_seq), b""
            parts.append(first_seq)
        self._content += lines
        self.end = IndexEnd(self.end.part, len(self._content))
        return part_path(self.end.part), self._content

    def lines(self, budget_s: float) -> list[dict[str, Any]]:
        """Returns the lines, each sequence number once, in order.

        Args:
            budget_s: Seconds, checked before each part that has to be read.

        Raises:
            TimeoutError: When they are over.
        """
        deadline = time.monotonic() + budget_s
        found: dict[int, dict[str, Any]] = {}
        for part in self._load():
            if part != self.end.part and time.monotonic() > deadline:
                raise TimeoutError(f"reading the index of an MLflow run took more than {budget_s:g} s")
            content = self._content if part == self.end.part else self._files.read(part_path(part))
            found |= {line["seq"]: line for line in _whole_lines(content)}
        return [found[seq] for seq in sorted(found)]

    def _load(self) -> list[int]:
        """Returns the numbers of the parts that are there, after reading the last of them."""
        if self._parts is None:
            stems = [PurePosixPath(name).stem for name in self._files.names(INDEX_FOLDER)]
            # Somebody else's files have other names; parts beyond the end were never committed.
            parts = [int(stem) for stem in stems if stem.isdecimal() and int(stem) <= self.end.part]
            if self.end.part in parts:
                self._content = self._files.read(part_path(self.end.part))[: self.end.size]
            self._parts = parts
        return self._parts


def part_path(part: int) -> str:
    """Returns the path of a part below the folder of our artifacts."""
    return f"{INDEX_FOLDER}/{part:012d}.jsonl"


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
