"""Reads one series, or one histogram, of one rank after another: each store is closed before the next is opened."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.reading.many_series import read_scalars
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.segments import opened_segments
from tracker_adapters.store.reading.series_reader import naming_the_run, series_number
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.attempt_rows import last_attempt
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, HISTOGRAM_COLUMNS, decode_artifact
from tracker_adapters.store.segments.ended import EndedSegment, NotEnded, ended_segment
from tracker_adapters.store.segments.histogram_codec import encode
from tracker_adapters.store.segments.many_rows import OnDamage, joined_integers
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.soundness import floats

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
_Read = TypeVar("_Read")


class RankValues:
    """Reads a scalar of many ranks, which mostly have it at the same steps: these are decoded once.

    Memory is bounded by one rank's series and one rank's steps.
    """

    def __init__(self, record: RunRecord, on_damage: OnDamage = lambda count: None) -> None:
        """``on_damage`` is told how many rows were left out."""
        self._record, self._on_damage, self.path = record, on_damage, record.path
        self._text, self._steps = "", np.empty(0, np.int64)

    @naming_the_run
    def read(self, rank: int, name: str) -> tuple[Steps, Values]:
        """Returns steps and values (n,) of the latest attempts, by step; empty where the rank has no such scalar.

        Raises:
            RunError: When the store cannot be read.
        """
        folder = self._record.folder_with(rank)
        found = _in_files(folder, rank, name) or self._at_once(folder, rank, name)
        if found is not None:
            return found
        for _, (steps, _, values) in read_scalars(folder, rank, [name], self._on_damage):
            return steps, values
        return np.empty(0, np.int64), np.empty(0)

    def _at_once(self, run_folder: Path, rank: int, name: str) -> tuple[Steps, Values] | None:
        """The series of a store that is one segment of one attempt, in which steps only ascend; None for others."""
        found: tuple[Steps, Values] | None = np.empty(0, np.int64), np.empty(0)
        for place, (segment, _) in enumerate(opened_segments(run_folder, rank)):
            if place or segment.level or last_attempt(segment) > 1:
                return None
            found = self._of_segment(segment, name)
        return found

    def _of_segment(self, segment: Segment, name: str) -> tuple[Steps, Values] | None:
        number = series_number(segment, "scalar", name)
        if number is None:
            return np.empty(0, np.int64), np.empty(0)
        wanted = (*_groups(segment), number)
        try:
            with segment.transaction():  # no commit comes between the two
                (text,) = segment.connection.execute(
                    schema.select_series("scalar", "group_concat(step)"), wanted
                ).fetchone()
                rows = segment.connection.execute(schema.select_series("scalar", "value"), wanted).fetchall()
            values = floats(list(chain.from_iterable(rows)))
            if text != self._text:
                steps = joined_integers(text) if text else np.empty(0, np.int64)
                if (np.diff(steps) <= 0).any() or steps.min(initial=0) < 0:
                    return None
                self._text, self._steps = text or "", steps
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, *DAMAGED):
            return None
        return (self._steps, values) if len(values) == len(self._steps) else None


def _in_files(run_folder: Path, rank: int, name: str) -> tuple[Steps, Values] | None:
    """The series of a store that nobody writes; None for others."""
    parts = _of_ended(run_folder, rank, lambda segment: (segment.scalars(name), segment.is_compacted))
    if parts is None:
        return None
    columns = [rows for rows, _ in parts]
    seqs, attempts, steps, values = columns[0] if len(columns) == 1 else map(np.concatenate, zip(*columns, strict=True))
    if min(attempts.min(initial=0), steps.min(initial=0)) < 0:
        return None
    if (steps[1:] > steps[:-1]).all():  # none is of a step that an earlier one has
        return steps, values
    compacted = np.concatenate([np.full(len(rows.steps), is_compacted) for rows, is_compacted in parts])
    ranks = np.zeros(len(steps), np.int64)
    kept = latest(seqs=seqs, attempts=attempts, steps=steps, ranks=ranks, compacted=compacted)
    return steps[kept], values[kept]


def _of_ended(run_folder: Path, rank: int, read: Callable[[EndedSegment], _Read]) -> list[_Read] | None:
    """What ``read`` returns of each segment of a store that nobody writes; None for others, or where it raises."""
    folder, found = rank_folder(run_folder, rank), []
    paths = segments(folder)
    try:
        for path in paths:
            with ended_segment(path) as segment:
                found.append(read(segment))
    except NotEnded:
        return None
    return found or None


@naming_the_run
def read_histogram(record: RunRecord, rank: int, name: str, step: int) -> tuple[int, bytes] | None:
    """Returns a rank's histogram of a name at a step, of the latest attempt; None where there is none.

    It is the time in nanoseconds, and the blob that ``histogram_codec`` decodes: many together take a fraction of the
    time.

    Raises:
        RunError: When the store cannot be read.
    """
    folder = record.folder_with(rank)
    rows: Sequence[Any] | None = _of_ended(folder, rank, lambda segment: _histogram(segment, name, step))
    if rows is None:
        rows = []
        for segment, _ in opened_segments(folder, rank):
            if last_attempt(segment) > 1:
                return _of_several_attempts(folder, rank, name, step)
            number = series_number(segment, "histogram", name)
            if number is not None:
                statement = schema.select_series("histogram", HISTOGRAM_COLUMNS) + " AND step = ?4"
                rows += segment.connection.execute(statement, (*_groups(segment), number, step)).fetchall()
    found = max((row for row in rows if row is not None), default=None)  # by number
    return None if found is None else (found[4], found[5])


def _histogram(segment: EndedSegment, name: str, step: int) -> Any:
    if segment.last_attempt > 1:
        raise NotEnded
    return segment.histogram(name, step)


def _of_several_attempts(run_folder: Path, rank: int, name: str, step: int) -> tuple[int, bytes] | None:
    with RunRecord(run_folder) as record:
        if not any((info.kind, info.name) == ("histogram", name) for info in record.names(rank)):
            return None
        found = [one for one in record.histogram_columns(name, rank) if one.step == step]
        return (found[0].time_ns, encode(HistogramColumns.of(found[:1]))[0]) if found else None


def _groups(segment: Segment) -> tuple[int, int]:
    return segment.first_seq >> schema.GROUP_SHIFT, segment.last_seq() >> schema.GROUP_SHIFT


@naming_the_run
def read_rank_text(record: RunRecord, rank: int, name: str) -> str | None:
    """Returns the last text of a name that a rank has stored; None where there is none that is sound.

    Raises:
        RunError: When the store cannot be read.
    """
    run_folder = record.folder_with(rank)
    rows: Sequence[Any] | None = _of_ended(run_folder, rank, lambda segment: segment.text(name))
    if rows is None:
        rows = [row for segment, _ in opened_segments(run_folder, rank) for row in _last_text(segment, name)]
    found: tuple[int, str] = 0, ""
    for row in rows:
        if row is not None:
            with suppress(FileNotFoundError, UnsafeFileError, *DAMAGED):
                text = decode_artifact("text", name, row, run_folder)
                found = max(found, (row[0], getattr(text, "text", "")))
    return found[1] if found[0] else None


def _last_text(segment: Segment, name: str) -> list[Any]:
    number = series_number(segment, "text", name)
    statement = f"SELECT {ARTIFACT_COLUMNS} FROM artifact WHERE series = ? ORDER BY seq DESC LIMIT 1"
    return [] if number is None else segment.connection.execute(statement, (number,)).fetchall()
