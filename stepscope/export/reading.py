"""Reads rows out of the segments of a run, some thousand at a time: neither long transactions nor much memory.

Scalars come as columns: SQLite puts the integers of many rows into one text, which numpy reads in a third of the time
that Python takes to build a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import RunError
from tracker_adapters.store import layout, schema
from tracker_adapters.store.codec import ARTIFACT_COLUMNS, HISTOGRAM_COLUMNS
from tracker_adapters.store.tail import MAX_LOOKS, Segment

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
        last_attempt = max(last_attempt, segment.connection.execute("SELECT max(attempt) FROM attempt").fetchone()[0])
        last_seq = max(last_seq, segment.last_seq())
    return Extent(last_seq, last_attempt)


def read_rows(run_folder: Path, rank: int, selection: Selection, until: Extent) -> Iterator[tuple[str, SegmentRows]]:
    """Yields ``(table, rows)`` of what a rank held then and the selection wants, by segment, table and arrival.

    Several parts follow each other for each table; attempts are not looked at.

    Raises:
        RunError: When the store cannot be read, or holds values of the wrong type.
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
                try:
                    for columns in read(segment.connection, table, conditions, seqs):
                        rows = SegmentRows(series, *columns)
                        _check_numbers(rows)
                        yield table, rows
                except (ValueError, TypeError, OverflowError) as error:
                    raise RunError(f"{run_folder} holds a damaged {table}: {error}") from error


def _check_numbers(rows: SegmentRows) -> None:
    # Series are numbered from 1 without gaps.
    if rows.numbers.min() < 1 or rows.numbers.max() > len(rows.series):
        raise ValueError(f"series {rows.numbers.min()} to {rows.numbers.max()}; expected 1 to {len(rows.series)}")


def wanted_series(series: dict[int, tuple[str, str]], table: str, selection: Selection) -> list[int] | None:
    """Returns the numbers of the series that are wanted of a table; None stands for all."""
    here = [number for number, (kind, _) in series.items() if table_of(kind) == table]
    wanted = [
        number for number in here if series[number][0] in selection.kinds and selection.has_name(series[number][1])
    ]
    return None if wanted and len(wanted) == len(here) else wanted


def _scalars(
    connection: sqlite3.Connection, table: str, conditions: str, seqs: tuple[int, int]
) -> Iterator[Sequence[Any]]:
    joined = ", ".join(f"group_concat({column})" for column in _INTEGERS)
    rows = f"FROM {table} WHERE {conditions} ORDER BY {schema.in_order(table)}"
    integers = f"SELECT {joined} FROM (SELECT {', '.join(_INTEGERS)} {rows})"
    floats = f"SELECT value {rows}"
    first, last = seqs
    for start in range(first, last + 1, ROWS_AT_ONCE[table]):
        bounds = (start, min(start + ROWS_AT_ONCE[table] - 1, last))
        texts = connection.execute(integers, bounds).fetchone()
        if texts[0] is not None:
            # NULL becomes NaN.
            values = np.array(list(chain.from_iterable(connection.execute(floats, bounds))), np.float64)
            yield *map(integers_of, texts), values


def _others(
    connection: sqlite3.Connection, table: str, conditions: str, seqs: tuple[int, int]
) -> Iterator[Sequence[Any]]:
    statement = f"SELECT {_COLUMNS[table]} FROM {table} WHERE {conditions} ORDER BY seq LIMIT {ROWS_AT_ONCE[table]}"
    first, last = seqs
    while rows := connection.execute(statement, (first, last)).fetchall():
        *integers, content = zip(
            *((*row[:5], row[5] if table == "histogram" else row[5:]) for row in rows), strict=True
        )
        yield *(np.array(column, np.int64) for column in integers), content
        first = rows[-1][0] + 1
