"""Makes one segment of one or two sealed ones, with less in it: the same names over the same steps, more coarsely.

The new segment is written beside the old ones, forced to disk and renamed; from then on it stands for them, and they
are removed. Whenever that is cut short, the run holds either the old content or the new one. Sequence numbers stay.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from tracker_adapters.artifacts import Alert, Page, Text
from tracker_adapters.atomic_files import put_on_disk
from tracker_adapters.safe_files import move_file, open_file, remove_file
from tracker_adapters.store.connections import connect
from tracker_adapters.store.layout import SCHEMA_VERSION, SegmentName, below_run, compacted_path, segment_name
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, HISTOGRAM_COLUMNS, SCALAR_COLUMNS
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.rows import SeriesNumbers
from tracker_adapters.store.segments.thin_rows import EveryNth, HistogramThinner, ScalarThinner

TEMPORARY = ".compacting.db"
_ROWS_AT_ONCE = {"scalar": 50_000, "histogram": 5_000}
_NOTES = (Text.kind, Alert.kind)
_Part: TypeAlias = tuple[Segment, dict[int, int]]
"""A segment that is compacted, and the new numbers of its series."""


def compact(run_folder: Path, parts: Sequence[Path], level: int, *, notes_bytes: int) -> Path | None:
    """Replaces adjoining segments of a rank by one, and returns its path; None when that would not make them smaller.

    What would be thinned for no room stays as it is.

    Args:
        run_folder: The run.
        parts: One or two sealed segments, in their order.
        level: How often the new segment's content is thinned by half; each part is thinned as often as it lacks.
        notes_bytes: What texts and alerts may take before they are thinned too.

    Raises:
        sqlite3.Error: When a part cannot be read or the new segment cannot be written; all is as it was.
        OSError: Likewise.
    """
    folder = parts[0].parent
    names = [segment_name(part) for part in parts]
    target = compacted_path(folder, SegmentName(names[0].first, names[-1].last, level))
    temporary = folder / TEMPORARY
    remove_segment(temporary)
    try:
        with _opened(parts, run_folder) as segments, contextlib.closing(_new(temporary)) as connection:
            _fill(connection, segments, level, notes_bytes)
            refers_to_less = _blob_count(connection) < sum(_blob_count(segment.connection) for segment in segments)
        if not refers_to_less and _size(temporary) >= sum(map(_size, parts)):
            remove_segment(temporary)
            return None
        run, name = below_run(temporary)
        with open_file(run, name) as stream:
            os.fsync(stream.fileno())
        move_file(run, name, name.with_name(target.name))
    except BaseException:
        remove_segment(temporary)
        raise
    put_on_disk(folder)  # the new name, before what it replaces goes
    for part in parts:
        remove_segment(part)
    return target


def _blob_count(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM artifact WHERE blob IS NOT NULL").fetchone()[0]
    return count


def _size(segment: Path) -> int:
    return segment.stat().st_size


def remove_segment(path: Path) -> None:
    """Removes a segment, and what SQLite left beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            remove_file(*below_run(Path(f"{path}{suffix}")), missing_ok=True)


@contextlib.contextmanager
def _opened(parts: Sequence[Path], run_folder: Path) -> Iterator[list[Segment]]:
    with contextlib.ExitStack() as stack:
        segments = []
        for part in parts:
            connection = schema.open_for_reading(part)
            if connection is None:
                raise sqlite3.DatabaseError(f"{part} has no tables")
            stack.callback(connection.close)
            segments.append(Segment(connection, run_folder))
        yield segments


def _new(path: Path) -> sqlite3.Connection:
    connection = connect(path, "rwc")
    # Nobody looks at the file before it is complete, and nothing of it is used if that fails.
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    return connection


def _fill(connection: sqlite3.Connection, segments: Sequence[Segment], level: int, notes_bytes: int) -> None:
    rollup_shift = max([schema.ROLLUP_SHIFT + level, *(segment.ranges(fine=True)[1] for segment in segments)])
    note_halvings = _note_halvings(segments, notes_bytes)
    series = SeriesNumbers()
    connection.executescript(f"BEGIN; {schema.DDL_TABLES}")
    connection.executemany(
        "INSERT INTO meta VALUES (?,?)",
        [("schema_version", SCHEMA_VERSION), ("first_seq", segments[0].first_seq)],
    )
    for halvings, group in groupby(segments, key=lambda segment: level - segment.level):
        parts = [(segment, {old: series.one(*key) for old, key in segment.series().items()}) for segment in group]
        for segment, numbers in parts:
            connection.executemany(
                "INSERT OR IGNORE INTO attempt VALUES (?,?,?)",
                segment.connection.execute("SELECT attempt, first_seq, started_ns FROM attempt ORDER BY attempt"),
            )
            _add_rollups(connection, segment, rollup_shift, numbers)
        # Parts of one level are thinned as one: a bucket or group may begin in the first and end in the second.
        for table, rows in (
            ("scalar", _thinned(parts, "scalar", SCALAR_COLUMNS, ScalarThinner(halvings))),
            ("histogram", _thinned(parts, "histogram", HISTOGRAM_COLUMNS, HistogramThinner(halvings))),
            ("artifact", _thinned_artifacts(parts, halvings, note_halvings)),
        ):
            connection.executemany(schema.insert(table, 1), rows)
    connection.executemany("INSERT INTO series VALUES (?,?,?)", series.unstored())
    connection.execute("COMMIT")
    connection.executescript(schema.DDL_INDEXES)
    last_seq = max(max(segment.last_seq(), segment.first_seq - 1) for segment in segments)
    schema.seal(connection, last_seq, level=level, rollup_shift=rollup_shift)


def _thinned(
    parts: Sequence[_Part], table: str, columns: str, thinner: ScalarThinner | HistogramThinner
) -> Iterator[tuple[Any, ...]]:
    for segment, numbers in parts:
        cursor = segment.connection.execute(f"SELECT {columns} FROM {table} ORDER BY {schema.in_order(table)}")
        while rows := cursor.fetchmany(_ROWS_AT_ONCE[table]):
            yield from thinner.push([(row[0], numbers[row[1]], *row[2:]) for row in rows])
    yield from thinner.finish()


def _thinned_artifacts(parts: Sequence[_Part], halvings: int, note_halvings: int) -> Iterator[tuple[Any, ...]]:
    others, notes = EveryNth(halvings), EveryNth(note_halvings)
    for segment, numbers in parts:
        series = segment.series()
        for row in segment.connection.execute(f"SELECT {ARTIFACT_COLUMNS} FROM artifact ORDER BY seq"):
            kind, number = series[row[1]][0], numbers[row[1]]
            # Pages have a name each.
            if notes.keeps(number) if kind in _NOTES else others.keeps(kind if kind == Page.kind else number):
                yield (row[0], number, *row[2:])


def _note_halvings(segments: Sequence[Segment], notes_bytes: int) -> int:
    """How often texts and alerts must be thinned by half to take no more than they may."""
    total = sum(
        segment.connection.execute(
            "SELECT coalesce(sum(length(meta) + coalesce(length(data), 0)), 0) FROM artifact "
            "WHERE series IN (SELECT id FROM series WHERE kind IN (?, ?))",
            _NOTES,
        ).fetchone()[0]
        for segment in segments
    )
    halvings = 0
    while total >> halvings > max(notes_bytes, 1):
        halvings += 1
    return halvings


def _add_rollups(connection: sqlite3.Connection, segment: Segment, shift: int, numbers: dict[int, int]) -> None:
    table, own_shift = segment.ranges(fine=True)
    rows = segment.connection.execute(
        "SELECT series, bucket >> ?, count, non_finite, min, max, first_step, last_step, last_value "
        f"FROM {table} ORDER BY last_step, is_late",
        (shift - own_shift,),
    )
    connection.executemany(
        f"INSERT INTO rollup VALUES (?,?,?,?,?,?,?,?,?) {schema.MERGE_RANGES}",
        ((numbers[row[0]], *row[1:]) for row in rows),
    )
