"""Checks whole segments before they are rewritten, so that nothing is removed that cannot be read."""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import File, Page
from tracker_adapters.errors import DamagedError, UnsafeFileError
from tracker_adapters.store.layout import is_checksum
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import DAMAGED, decode_artifact, needs_blob
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.soundness import MAX_SEQ, floats, integers

_ROWS_AT_ONCE = {"scalar": 50_000, "histogram": 5_000, "artifact": 500}
_RANGE_INTEGERS, _RANGE_NUMBERS = "series, bucket, count, non_finite, first_step, last_step", "min, max, last_value"


class Faults:
    """The damaged segments of a run, and why; each segment is looked through once, since sealed ones never change."""

    def __init__(self, run_folder: Path) -> None:
        self._run_folder = run_folder
        self._found: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        """Returns what is wrong with a segment, after reading all of it; empty when nothing is.

        Raises:
            sqlite3.OperationalError: When it cannot be read now.
            OSError: Likewise.
        """
        if path not in self._found:
            self._found[path] = ""
            with self.noted(path):
                _check(path, self._run_folder)
        return self._found[path]

    @contextlib.contextmanager
    def noted(self, *paths: Path) -> Any:
        """Ends a block that meets damage, and notes it for the segments that the block reads."""
        try:
            yield
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, UnsafeFileError, *DAMAGED) as error:
            self._found.update(dict.fromkeys(paths, str(error) or repr(error)))

    def named(self) -> dict[Path, str]:
        """Returns the damaged segments, and what is wrong with each."""
        return {path: fault for path, fault in self._found.items() if fault}


def blobs_of(segment: Path) -> set[str]:
    """Returns the checksums of the files beside the store that a segment refers to.

    Raises:
        DamagedError: When it does not say so of each of its artifacts.
        sqlite3.Error: When it cannot be read.
        UnsafeFileError: When it is not a regular file.
    """
    connection = schema.open_for_reading(segment)
    if connection is None:
        return set()
    found = set()
    with contextlib.closing(connection):
        for blob, has_data, kind in connection.execute(
            "SELECT blob, data IS NOT NULL, kind FROM artifact LEFT JOIN series ON series.id = artifact.series"
        ):
            _check_blob(blob, has_data, kind)
            if blob is not None:
                found.add(blob)
    return found


def _check(path: Path, run_folder: Path) -> None:
    """Raises what tells of damage, as ``Faults.noted`` takes it, unless all of a segment is as it was written."""
    connection = schema.open_for_reading(path)
    if connection is None:
        raise DamagedError("it has no tables")
    with contextlib.closing(connection):
        said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise DamagedError(str(said))
        segment = Segment(connection, run_folder)
        series = segment.series()
        if len(series) != connection.execute("SELECT count(*) FROM series").fetchone()[0]:
            raise DamagedError("a series has no name, or one that it cannot have")
        attempts = connection.execute("SELECT attempt, first_seq, started_ns FROM attempt").fetchall()
        for column in zip(*attempts, strict=True):
            integers(column)
        for table, columns in schema.COLUMNS.items():
            cursor = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
            while rows := cursor.fetchmany(_ROWS_AT_ONCE[table]):
                _check_rows(table, rows, series, run_folder)
        _check_ranges(segment, series)


def _check_rows(
    table: str, rows: Sequence[Sequence[Any]], series: Mapping[int, tuple[str, str]], run_folder: Path
) -> None:
    columns = list(zip(*rows, strict=True))
    for column in columns[:5]:
        integers(column)
    if max(columns[0]) >= MAX_SEQ:
        raise DamagedError(f"a sequence number in {table} is {max(columns[0])}")
    kinds = {number: series[number][0] if number in series else None for number in set(columns[1])}
    if table == "artifact":
        for row in rows:
            kind = kinds[row[1]]
            _check_blob(row[7], row[6] is not None, kind)
            if kind in (Page.kind, File.kind) or row[7] is None:  # what lies in a blob is not rewritten
                with contextlib.suppress(FileNotFoundError):
                    decode_artifact(str(kind), series[row[1]][1], row, run_folder)
        return
    if set(kinds.values()) != {table}:
        raise DamagedError(f"a row in {table} belongs to no {table}")
    if table == "scalar":
        floats(columns[5])
    else:
        decode(columns[5])


def _check_ranges(segment: Segment, series: Mapping[int, tuple[str, str]]) -> None:
    table, _ = segment.ranges(fine=True)
    cursor = segment.connection.execute(f"SELECT {_RANGE_INTEGERS}, {_RANGE_NUMBERS} FROM {table}")
    while rows := cursor.fetchmany(_ROWS_AT_ONCE["scalar"]):
        columns = list(zip(*rows, strict=True))
        for place, column in enumerate(columns):
            floats(column) if place > 5 else integers(column)
        if not series.keys() >= set(columns[0]):
            raise DamagedError("a roll-up belongs to no series")


def _check_blob(blob: object, has_data: object, kind: str | None) -> None:
    if kind is None:
        raise DamagedError("an artifact belongs to no series")
    if needs_blob(kind, bool(has_data)) if blob is None else not is_checksum(blob):
        raise DamagedError(f"the checksum of what a {kind} holds is {str(blob)[:80]!r}")
