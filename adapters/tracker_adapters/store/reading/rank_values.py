"""Reads one series, or one histogram, of one rank after another: each store is closed before the next is opened."""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError, UnsafeFileError
from tracker_adapters.safe_files import folder_of
from tracker_adapters.store.layout import rank_name, segments_among
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.reading.many_series import read_scalars
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.segments import opened_segments
from tracker_adapters.store.reading.series_reader import naming_the_run, series_number
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.attempt_rows import last_attempt
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, HISTOGRAM_COLUMNS, decode_artifact
from tracker_adapters.store.segments.ended import EndedSegment, NotEnded, ScalarColumns, ended_segment
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
    def read(self, rank: int, name: str, attempts: Collection[int] | None = None) -> tuple[Steps, Values]:
        """Returns steps and values (n,) of the latest attempts, by step; empty where the rank has no such scalar.

        Args:
            rank: Whose.
            name: The scalar.
            attempts: Only what these have recorded; all by default.

        Raises:
            RunError: When the store cannot be read.
        """
        folder = self._record.folder_with(rank)
        found = _in_files(folder, rank, name, attempts)
        if found is not None:
            return found
        if attempts is not None:
            return self._of_attempts(attempts, rank, name)
        found = self._at_once(folder, rank, name)
        if found is not None:
            return found
        for _, (steps, _, values) in read_scalars(folder, rank, [name], self._on_damage):
            return steps, values
        return np.empty(0, np.int64), np.empty(0)

    def _of_attempts(self, attempts: Collection[int], rank: int, name: str) -> tuple[Steps, Values]:
        try:
            rows = self._record.scalar_rows(name, rank)
        except ArtifactError:
            return np.empty(0, np.int64), np.empty(0)
        finally:
            self._record.let_go(rank)
        return _latest(ScalarColumns(rows.seqs, rows.attempts, rows.steps, rows.values), rows.compacted, attempts)

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


def _in_files(run_folder: Path, rank: int, name: str, attempts: Collection[int] | None) -> tuple[Steps, Values] | None:
    """The series of a store that nobody writes; None for others."""
    parts = _of_ended(run_folder, rank, lambda segment: (segment.scalars(name), segment.is_compacted))
    if parts is None:
        return None
    columns = [rows for rows, _ in parts]
    rows = columns[0] if len(columns) == 1 else ScalarColumns(*map(np.concatenate, zip(*columns, strict=True)))
    if min(rows.attempts.min(initial=0), rows.steps.min(initial=0)) < 0:
        return None
    compacted = np.repeat([is_compacted for _, is_compacted in parts], [len(part.steps) for part in columns])
    return _latest(rows, compacted, attempts)


def _latest(
    rows: ScalarColumns, compacted: npt.NDArray[np.bool_], attempts: Collection[int] | None
) -> tuple[Steps, Values]:
    """Steps and values by step of what some attempts recorded, None for all, and no later one of them replaced."""
    if attempts is not None:
        chosen = np.isin(rows.attempts, list(attempts))
        compacted = compacted[chosen]
        rows = ScalarColumns(rows.seqs[chosen], rows.attempts[chosen], rows.steps[chosen], rows.values[chosen])
    steps, values = rows.steps, rows.values
    if (steps[1:] > steps[:-1]).all():  # none is of a step that an earlier one has
        return steps, values
    ranks = np.zeros(len(steps), np.int64)
    kept = latest(seqs=rows.seqs, attempts=rows.attempts, steps=steps, ranks=ranks, compacted=compacted)
    return steps[kept], values[kept]


def _of_ended(run_folder: Path, rank: int, read: Callable[[EndedSegment], _Read]) -> list[_Read] | None:
    """What ``read`` returns of each segment of a store that nobody writes; None for others, or where it raises."""
    found = []
    try:
        with folder_of(run_folder, rank_name(rank)) as folder:
            for name in segments_among(folder.names())[0]:
                with ended_segment(folder.place(name)) as segment:
                    found.append(read(segment))
    except (NotEnded, OSError):
        return None
    return found or None


@naming_the_run
def read_histogram(
    record: RunRecord, rank: int, name: str, step: int, attempts: Collection[int] | None = None
) -> tuple[int, bytes] | None:
    """Returns a rank's histogram of a name at a step, of the latest attempt; None where there is none.

    It is the time in nanoseconds, and the blob that ``histogram_codec`` decodes: many together take a fraction of the
    time.

    Args:
        record: The run.
        rank: Whose.
        name: The histogram.
        step: The step.
        attempts: Only what these have recorded; all by default.

    Raises:
        RunError: When the store cannot be read.
    """
    folder = record.folder_with(rank)
    rows: Sequence[Any] | None = _of_ended(folder, rank, lambda segment: _histogram(segment, name, step))
    spans: dict[int, tuple[int, int]] = {}
    if rows is None:
        rows = []
        for segment, _ in opened_segments(folder, rank):
            number = series_number(segment, "histogram", name)
            if number is not None:
                series = *_groups(segment), number
                statement = schema.select_series("histogram", HISTOGRAM_COLUMNS) + " AND step = ?4"
                rows += segment.connection.execute(statement, (*series, step)).fetchall()
                if segment.level and last_attempt(segment) > 1:
                    statement = schema.select_series("histogram", "attempt, min(step), max(step)")
                    for attempt, first, last in segment.connection.execute(f"{statement} GROUP BY attempt", series):
                        known = spans.get(attempt, (first, last))
                        spans[attempt] = min(known[0], first), max(known[1], last)
    found = [row for row in rows if row is not None and (attempts is None or row[2] in attempts)]
    if not found:
        return None
    _, _, attempt, _, time_ns, blob = max(found, key=lambda row: (row[2], row[0]))
    replaced = any(
        later > attempt and (attempts is None or later in attempts) and first <= step <= last
        for later, (first, last) in spans.items()
    )
    return None if replaced else (time_ns, blob)


def _histogram(segment: EndedSegment, name: str, step: int) -> Any:
    if segment.last_attempt > 1:  # it gives the last one alone
        raise NotEnded
    return segment.histogram(name, step)


def _groups(segment: Segment) -> tuple[int, int]:
    return segment.first_seq >> schema.GROUP_SHIFT, segment.last_seq() >> schema.GROUP_SHIFT


@naming_the_run
def read_rank_texts(record: RunRecord, rank: int, name: str) -> dict[int, str]:
    """Returns the last text of a name that each attempt of a rank has stored, by attempt; damaged ones are left out.

    Raises:
        RunError: When the store cannot be read.
    """
    run_folder = record.folder_with(rank)
    rows: Sequence[Any] | None = _of_ended(run_folder, rank, lambda segment: _text(segment, name))
    if rows is None:
        rows = [row for segment, _ in opened_segments(run_folder, rank) for row in _last_texts(segment, name)]
    found: dict[int, tuple[int, str]] = {}
    for row in rows:
        if row is not None and type(row[2]) is int:
            with suppress(FileNotFoundError, UnsafeFileError, *DAMAGED):
                text = decode_artifact("text", name, row, run_folder)
                found[row[2]] = max(found.get(row[2], (0, "")), (row[0], getattr(text, "text", "")))
    return {attempt: text for attempt, (_, text) in sorted(found.items())}


def read_rank_text(record: RunRecord, rank: int, name: str) -> str | None:
    """Returns the last text of a name that a rank has stored; None where there is none that is sound.

    Raises:
        RunError: When the store cannot be read.
    """
    return next(reversed(read_rank_texts(record, rank, name).values()), None)


def _text(segment: EndedSegment, name: str) -> tuple[Any, ...] | None:
    if segment.last_attempt > 1:  # it gives the last text alone
        raise NotEnded
    return segment.text(name)


def _last_texts(segment: Segment, name: str) -> list[Any]:
    number = series_number(segment, "text", name)
    # SQLite takes bare columns from the row that holds the maximum.
    statement = f"SELECT max(seq), {ARTIFACT_COLUMNS} FROM artifact WHERE series = ? GROUP BY attempt"
    return [] if number is None else [row[1:] for row in segment.connection.execute(statement, (number,))]
