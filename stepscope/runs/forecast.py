"""Says once, at a run's first hundredth step, what it will take on disk."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tracker_adapters.artifacts import Histogram, Scalar
from tracker_adapters.errors import StepscopeError
from tracker_adapters.store.layout import BLOBS
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.sizes import step_span, table_sizes

from stepscope.runs.byte_sizes import format_bytes

_log = logging.getLogger(__name__)
STEPS = 100
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Volume:
    """What a run has stored so far: bytes of all kinds, of the histograms alone, steps, and the seconds they took."""

    nbytes: int
    histogram_bytes: int
    steps: int
    seconds: float


class Forecast:
    """Looks at a new run's store until its steps span a hundred, and then logs one line; once."""

    def __init__(self, run_folder: Path, rank: int, max_run_bytes: int | None) -> None:
        """``max_run_bytes`` is the run's limit, if any."""
        self._run_folder = run_folder
        self._rank = rank
        self._limit = max_run_bytes
        self._done = False
        self._look_at = 0.0
        self._pause_s = FIRST_PAUSE_S

    def look(self) -> None:
        """Logs when it is time; cheap otherwise. Called by the store's thread."""
        if self._done or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + self._pause_s
        self._pause_s = min(1.5 * self._pause_s, LAST_PAUSE_S)
        try:
            found = volume(self._run_folder, self._rank)
        except (OSError, sqlite3.Error, StepscopeError):
            return
        if found is not None and found.steps >= STEPS:
            self._done = True
            _log.info("%s", forecast_line(found, self._limit))


def forecast_line(found: Volume, max_run_bytes: int | None) -> str:
    """Returns what a day takes at the pace so far, and the limit."""
    days = max(found.seconds, 1e-3) / DAY_S
    share = found.histogram_bytes / found.nbytes if found.nbytes else 0.0
    line = (
        f"{format_bytes(found.nbytes / days)} a day at this pace ({found.steps / (days * DAY_S):.3g} steps/s; "
        f"histograms {100 * share:.0f} %)"
    )
    if share >= 0.5:
        line += f"; {format_bytes((found.nbytes - found.histogram_bytes) / days)} without histograms"
    limit = "not set" if max_run_bytes is None else format_bytes(max_run_bytes)
    return f"{line}; max_run_bytes is {limit}"


def volume(run_folder: Path, rank: int) -> Volume | None:
    """Returns what a rank's store holds with the files beside it; None while it spans less than a hundred steps."""
    with closing(StoreReader(run_folder, rank)) as reader:
        segments = reader.segments()
        spans = [span for segment in segments if (span := step_span(segment)) is not None]
        if not spans:
            return None
        steps = max(last for _, last in spans) - min(first for first, _ in spans)
        return _volume(run_folder, segments, steps) if steps >= STEPS else None


def _volume(run_folder: Path, segments: Sequence[Segment], steps: int) -> Volume:
    nbytes = histogram_bytes = 0
    times: list[int] = []
    for sizes in map(table_sizes, segments):
        nbytes += sum(size.nbytes for size in sizes.values())
        histogram_bytes += sizes[Histogram.kind].nbytes
        for size in (sizes[Scalar.kind], sizes[Histogram.kind]):
            times += [at for at in (size.first_ns, size.last_ns) if at is not None]
    nbytes += sum(path.lstat().st_size for path in (run_folder / BLOBS).rglob("*") if path.is_file())
    seconds = (max(times) - min(times)) / 1e9 if times else 0.0
    return Volume(nbytes, histogram_bytes, steps, seconds)
