"""Says once, at a run's first hundredth step, what it will take on disk."""

import logging
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tracker_adapters.errors import StepscopeError
from tracker_adapters.store.layout import BLOBS
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.sizes import newest, size_of

from stepscope.runs.byte_sizes import format_bytes

_log = logging.getLogger(__name__)
STEPS = 100
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Volume:
    """What a rank's store holds at a moment: bytes, with the files beside it, and the newest step and its time."""

    nbytes: int
    step: int
    time_ns: int


class Forecast:
    """Looks at a new run's store until it has grown by a hundred steps, and then logs one line; once."""

    def __init__(self, run_folder: Path, rank: int, max_run_bytes: int | None) -> None:
        """``max_run_bytes`` is the run's limit, if any."""
        self._run_folder = run_folder
        self._rank = rank
        self._limit = max_run_bytes
        self._done = False
        self._first: Volume | None = None
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
        if self._first is None or found is None:
            self._first = found
        elif found.step - self._first.step >= STEPS:
            self._done = True
            _log.info("%s", forecast_line(self._first, found, self._limit))


def forecast_line(first: Volume, found: Volume, max_run_bytes: int | None) -> str:
    """Returns what a day takes at the pace between two moments, and the limit."""
    seconds = max((found.time_ns - first.time_ns) / 1e9, 1e-3)
    growth = format_bytes(max(0, found.nbytes - first.nbytes) * DAY_S / seconds)
    limit = "not set" if max_run_bytes is None else format_bytes(max_run_bytes)
    pace = (found.step - first.step) / seconds
    return f"{growth} a day at this pace ({pace:.3g} steps/s); max_run_bytes is {limit}"


def volume(run_folder: Path, rank: int) -> Volume | None:
    """Returns what a rank's store holds; None before its first scalar or histogram."""
    with closing(StoreReader(run_folder, rank)) as reader:
        segments = reader.segments()
        last = max(filter(None, map(newest, segments)), default=None)
        nbytes = sum(map(size_of, segments))
    nbytes += sum(path.lstat().st_size for path in (run_folder / BLOBS).rglob("*") if path.is_file())
    return None if last is None else Volume(nbytes, *last)
