"""Reads rows out of the segments of a run, some thousand at a time: neither long transactions nor much memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracker_adapters.errors import RunError
from tracker_adapters.store import layout, schema
from tracker_adapters.store.codec import ARTIFACT_COLUMNS, HISTOGRAM_COLUMNS, SCALAR_COLUMNS
from tracker_adapters.store.tail import MAX_LOOKS, Segment

from stepscope.export.selection import Selection

ROWS_AT_ONCE = {"scalar": 5_000, "histogram": 2_000, "artifact": 64}
_COLUMNS = {"scalar": SCALAR_COLUMNS, "histogram": HISTOGRAM_COLUMNS, "artifact": ARTIFACT_COLUMNS}
ATTEMPT, STEP = 2, 3
"""Where a row has these; sequence number and series come first."""


_CHECKSUM = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows of one table of a segment; ``series`` gives the (kind, name) of the number in a row's second column."""

    series: dict[int, tuple[str, str]]
    rows: list[Any]


def table_of(kind: str) -> str:
    """Returns which of a segment's tables holds a kind."""
    return kind if kind in ROWS_AT_ONCE else "artifact"


def is_checksum(blob: object) -> bool:
    """Whether this is a SHA-256 in hexadecimal digits, and no path that leads out of the run's folder."""
    return isinstance(blob, str) and _CHECKSUM.fullmatch(blob) is not None


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


def last_attempt(run_folder: Path, rank: int) -> int:
    """Returns the number of a rank's last attempt; 0 when there is none."""
    last = 0
    for segment, _ in opened_segments(run_folder, rank):
        last = max(last, segment.connection.execute("SELECT max(attempt) FROM attempt").fetchone()[0])
    return last


def read_rows(run_folder: Path, rank: int, selection: Selection) -> Iterator[tuple[str, SegmentRows]]:
    """Yields ``(table, rows)`` of what a rank holds now and the selection wants, by segment, table and arrival.

    Several lists of rows follow each other for each table; attempts are not looked at.
    """
    tables = list(dict.fromkeys(map(table_of, sorted(selection.kinds))))
    for segment, after in opened_segments(run_folder, rank):
        last_seq = segment.last_seq()
        series = segment.series()
        for table in tables:
            wanted = wanted_series(series, table, selection)
            if wanted != []:
                for rows in _rows(segment, table, wanted, selection, (after, last_seq)):
                    yield table, SegmentRows(series, rows)


def wanted_series(series: dict[int, tuple[str, str]], table: str, selection: Selection) -> list[int] | None:
    """Returns the numbers of the series that are wanted of a table; None stands for all."""
    here = [number for number, (kind, _) in series.items() if table_of(kind) == table]
    wanted = [
        number for number in here if series[number][0] in selection.kinds and selection.has_name(series[number][1])
    ]
    return None if wanted and len(wanted) == len(here) else wanted


def _rows(
    segment: Segment, table: str, wanted: Sequence[int] | None, selection: Selection, seqs: tuple[int, int]
) -> Iterator[list[Any]]:
    conditions = "seq > ? AND seq <= ? AND step BETWEEN ? AND ?"
    if wanted is not None:
        conditions += f" AND series IN ({','.join(map(str, wanted))})"
    statement = f"SELECT {_COLUMNS[table]} FROM {table} WHERE {conditions} ORDER BY seq LIMIT ?"
    at_once, (after, last_seq) = ROWS_AT_ONCE[table], seqs
    while True:
        steps = (selection.first_step, selection.last_step)
        rows = segment.connection.execute(statement, (after, last_seq, *steps, at_once)).fetchall()
        if rows:
            yield rows
        if len(rows) < at_once:
            return
        after = rows[-1][0]
