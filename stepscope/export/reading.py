"""Reads rows out of the segments of a run, some thousand at a time: neither long transactions nor much memory.

Scalars come as columns: SQLite puts the integers of many rows into one text, which numpy reads in a third of the time
that Python takes to build a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import DamagedError, RunError
from tracker_adapters.store import layout
from tracker_adapters.store.reading.tail import MAX_LOOKS
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, HISTOGRAM_COLUMNS, SCALAR_COLUMNS
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.soundness import floats, integers, salvaged, sound_rows

from stepscope.export.selection import Selection

Integers = npt.NDArray[np.int64]
ROWS_AT_ONCE = {"scalar": 10_000, "histogram": 500, "artifact": 64}
_COLUMNS = {"histogram": HISTOGRAM_COLUMNS, "artifact": ARTIFACT_COLUMNS}
_INTEGERS = ("seq", "series", "attempt", "step", "time_ns")


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows of one table of a segment, by column.

    Attributes:
        series: The (kind, name) of each number in ``numbers``.
        seqs: Sequence numbers, int64 (n,), as are ``numbers``, ``attempts``, ``steps`` and ``times_ns``.
        content: Of scalars the values, float64 (n,); of histograms their bytes; of others (meta, data, blob).
    """

    series: dict[int, tuple[str, str]]
    seqs: Integers
    numbers: Integers
    attempts: Integers
    steps: Integers
    times_ns: Integers
    content: Any

    def __len__(self) -> int:
        return len(self.seqs)

    def where(self, wanted: npt.NDArray[np.bool_]) -> SegmentRows:
        """Returns the rows for which ``wanted``, of shape (n,), is true."""
        content = self.content
        return SegmentRows(
            self.series,
            self.seqs[wanted],
            self.numbers[wanted],
            self.attempts[wanted],
            self.steps[wanted],
            self.times_ns[wanted],
            content[wanted] if isinstance(content, np.ndarray) else [content[i] for i in np.flatnonzero(wanted)],
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """What a rank holds at one moment: the numbers of its last artifact and of its last attempt, 0 for none."""

    last_seq: int
    last_attempt: int


def table_of(kind: str) -> str:
    """Returns which of a segment's tables holds a kind."""
    return kind if kind in ROWS_AT_ONCE else "artifact"


def integers_of(text: str) -> Integers:
    """Returns the numbers that ``group_concat`` joined."""
    return np.fromstring(text, np.int64, sep=",")


@contextmanager
def opened_segment(path: Path, run_folder: Path) -> Iterator[Segment | None]:
    """Opens a segment for reading; None while it has no tables yet. SQLite's errors become RunError.

    Raises:
        FileNotFoundError: When it is gone.
        RunError: When it cannot be read.
    """
    try:
        connection = schema.open_for_reading(path)
    except sqlite3.Error as error:
        path.stat()
        raise RunError(f"cannot read {path}: {error}") from error
    if connection is None:
        yield None
        return
    try:
        yield Segment(connection, run_folder)
    except sqlite3.Error as error:
        raise RunError(f"cannot read {path}: {error}") from error
    finally:
        connection.close()


def opened_segments(run_folder: Path, rank: int) -> Iterator[tuple[Segment, int]]:
    """Opens the segments of a rank in turn; yields each with the last number that those before it covered.

    A compaction may replace segments meanwhile: then the one that stands for them is opened.

    Raises:
        RunError: When one cannot be read.
    """
    folder = layout.rank_folder(run_folder, rank)
    reached, after, looks = -1, 0, 0
    while True:
        path = next((path for path in layout.segments(folder) if layout.segment_name(path).last > reached), None)
        if path is None:
            return
        with ExitStack() as stack:
            try:
                segment = stack.enter_context(opened_segment(path, run_folder))
            except FileNotFoundError:
                looks += 1
                if looks > MAX_LOOKS:
                    raise
                continue
            if segment is not None:
                yield segment, after
                after = max(after, segment.last_seq())
            reached = layout.segment_name(path).last


def extent(run_folder: Path, rank: int) -> Extent:
    """Returns what a rank holds now; what comes later is not read, so that attempts and rows fit each other."""
    last_seq = last_attempt = 0
    for segment, _ in opened_segments(run_folder, rank):
        found = segment.connection.execute("SELECT max(attempt) FROM attempt").fetchone()[0]
        last_attempt = max(last_attempt, found if type(found) is int else 0)
        last_seq = max(last_seq, segment.last_seq())
    return Extent(last_seq, last_attempt)


def read_rows(
    run_folder: Path,
    rank: int,
    selection: Selection,
    until: Extent,
    on_damage: Callable[[int], None] = lambda count: None,
) -> Iterator[tuple[str, SegmentRows]]:
    """Yields ``(table, rows)`` of what a rank held then and the selection wants, by segment, table and arrival.

    Several parts follow each other for each table; attempts are not looked at. What is damaged is left out, and
    ``on_damage`` is told how many rows that are, as far as they can be told.

    Raises:
        RunError: When the store cannot be read.
    """
    tables = list(dict.fromkeys(map(table_of, sorted(selection.kinds))))
    for segment, after in opened_segments(run_folder, rank):
        seqs = (max(after + 1, segment.first_seq), min(segment.last_seq(), until.last_seq))
        series = segment.series()
        for table in tables:
            wanted = wanted_series(series, table, selection)
            if wanted != []:
                steps = f"step BETWEEN {selection.first_step} AND {selection.last_step}"
                conditions = f"{schema.between(table)} AND {steps}"
                if wanted is not None:
                    conditions += f" AND series IN ({','.join(map(str, wanted))})"
                read = _scalars if table == "scalar" else _others
                for part in read(segment.connection, table, conditions, seqs, on_damage):
                    columns = part if isinstance(part, tuple) else _sound(part, table, series, on_damage)
                    if columns is not None:
                        rows = SegmentRows(series, *columns)
                        if not set(np.unique(rows.numbers).tolist()) <= series.keys():
                            rows = rows.where(np.isin(rows.numbers, list(series)))
                            on_damage(len(columns[0]) - len(rows))
                        if len(rows):
                            yield table, rows


def _sound(
    rows: list[Any], table: str, series: dict[int, tuple[str, str]], on_damage: Callable[[int], None]
) -> tuple[Any, ...] | None:
    """The columns of those rows that are as they were written."""
    sound = sound_rows(table, rows, series)
    on_damage(len(rows) - len(sound))
    if not sound:
        return None
    columns = list(zip(*sound, strict=True))
    content: Any = columns[5] if table != "artifact" else [*zip(*columns[5:], strict=True)]
    return (*map(integers, columns[:5]), floats(content) if table == "scalar" else content)


def wanted_series(series: dict[int, tuple[str, str]], table: str, selection: Selection) -> list[int] | None:
    """Returns the numbers of the series that are wanted of a table; None stands for all."""
    here = [number for number, (kind, _) in series.items() if table_of(kind) == table]
    wanted = [
        number for number in here if series[number][0] in selection.kinds and selection.has_name(series[number][1])
    ]
    return None if wanted and len(wanted) == len(here) else wanted


def _scalars(
    connection: sqlite3.Connection,
    table: str,
    conditions: str,
    seqs: tuple[int, int],
    on_damage: Callable[[int], None],
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields columns, or rows where something is damaged."""
    joined = ", ".join(f"group_concat({column})" for column in _INTEGERS)
    rows = f"FROM {table} WHERE {conditions} ORDER BY {schema.in_order(table)}"
    statement = f"SELECT {joined} FROM (SELECT {', '.join(_INTEGERS)} {rows})"
    first, last = seqs
    for start in range(first, last + 1, ROWS_AT_ONCE[table]):
        bounds = (start, min(start + ROWS_AT_ONCE[table] - 1, last))
        try:
            texts = connection.execute(statement, bounds).fetchone()
            if texts[0] is not None:
                values = connection.execute(f"SELECT value {rows}", bounds).fetchall()
                content = floats(list(chain.from_iterable(values)))  # NULL becomes NaN
                columns = [integers_of(text) for text in texts]
                if any(len(column) != len(content) or column.min() < 0 for column in columns):
                    raise DamagedError("a column of integers holds something else")
                yield *columns, content
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, *DAMAGED):
            yield _rows_around_damage(connection, f"SELECT {SCALAR_COLUMNS} {rows}", bounds, on_damage)


def _others(
    connection: sqlite3.Connection,
    table: str,
    conditions: str,
    seqs: tuple[int, int],
    on_damage: Callable[[int], None],
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields columns, or rows where something is damaged."""
    statement = f"SELECT {_COLUMNS[table]} FROM {table} WHERE {conditions} ORDER BY seq"
    first, last = seqs
    while first <= last:
        try:
            rows = connection.execute(f"{statement} LIMIT {ROWS_AT_ONCE[table]}", (first, last)).fetchall()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            end = min(first + ROWS_AT_ONCE["scalar"] - 1, last)
            yield _rows_around_damage(connection, statement, (first, end), on_damage)
            first = end + 1
            continue
        if not rows:
            return
        first = rows[-1][0] + 1
        try:
            if table == "histogram":
                decode([row[5] for row in rows])
            content = [row[5] if table == "histogram" else row[5:] for row in rows]
            yield *(integers(column) for column in zip(*(row[:5] for row in rows), strict=True)), content
        except DAMAGED:
            yield rows


def _rows_around_damage(
    connection: sqlite3.Connection, statement: str, bounds: tuple[int, int], on_damage: Callable[[int], None]
) -> list[Any]:
    def fetch(first: int, last: int) -> list[Any]:
        return connection.execute(statement, (first, last)).fetchall()

    return salvaged(fetch, *bounds, on_damage)
