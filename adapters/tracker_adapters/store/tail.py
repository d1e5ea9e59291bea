"""Reads a rank's store in order, from any position, while it is written."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tracker_adapters.artifacts import Artifact, Image
from tracker_adapters.batch import Batch, Column, HistogramRows, ScalarColumns
from tracker_adapters.errors import RunError
from tracker_adapters.store import schema
from tracker_adapters.store.codec import ARTIFACT_COLUMNS, DAMAGED, HISTOGRAM_COLUMNS, SCALAR_COLUMNS, decode_artifact
from tracker_adapters.store.histogram_codec import decode
from tracker_adapters.store.layout import rank_folder, segments

T = TypeVar("T")
MAX_ROWS = 10_000
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
MAX_LOOKS = 10
_TABLES = {"scalar": ("scalar", SCALAR_COLUMNS), "histogram": ("histogram", HISTOGRAM_COLUMNS)}
_COLUMN_OF_KIND = {
    "image": "images", "text": "texts", "alert": "alerts", "table": "tables", "page": "pages", "file": "files",
}  # fmt: skip


class StoreReader:
    """A reader of one rank's segments; used by one thread at a time. Each read is one short transaction."""

    def __init__(self, run_folder: Path, rank: int = 0) -> None:
        self._run_folder = run_folder
        self._folder = rank_folder(run_folder, rank)
        self._opened: dict[Path, Segment] = {}
        self._first_seqs: dict[Path, int] = {}

    def segments(self) -> list[Segment]:
        """Returns the segments that exist now, opened, in order."""
        return self._retried(self._segments)

    def last_seq(self) -> int:
        """Returns the number of the last committed artifact, 0 when there is none."""
        found = self.segments()
        return max(found[-1].last_seq(), found[-1].first_seq - 1) if found else 0

    def read(self, after: int, *, max_rows: int = MAX_ROWS) -> Batch | None:
        """Returns the next batch after a sequence number, or None when there is nothing yet.

        A batch holds at most ``max_rows`` artifacts and about 16 MB of payload, and never spans attempts. What is
        damaged, or lay in a file beside the store that somebody has removed, is counted in ``Batch.unreadable``.
        """
        try:
            return self._retried(lambda: self._read(after, max_rows))
        except (FileNotFoundError, *DAMAGED):
            if not self._run_folder.exists():
                raise
            return self._read(after, max_rows, leave_out_unreadable=True)

    def close(self) -> None:
        """Closes the connections."""
        self._close_all_but(None)

    def _retried(self, read: Callable[[], T]) -> T:
        """Looks again when a segment was compacted in between: the one that stands for it is there before it goes."""
        for _ in range(MAX_LOOKS):
            with suppress(FileNotFoundError):
                return read()
        return read()

    def _segments(self) -> list[Segment]:
        paths = segments(self._folder)
        for path in self._opened.keys() - set(paths):
            self._opened.pop(path).connection.close()
        return [segment for path in paths if (segment := self._open(path)) is not None]

    def _read(self, after: int, max_rows: int, *, leave_out_unreadable: bool = False) -> Batch | None:
        for path in reversed(segments(self._folder)):
            first_seq = self._first_seq(path)
            if first_seq is not None and first_seq <= after + 1:
                self._close_all_but(path)
                segment = self._open(path)
                if segment is None:
                    return None
                return segment.read(after, max_rows, leave_out_unreadable=leave_out_unreadable)
        return None

    def _open(self, path: Path) -> Segment | None:
        if path not in self._opened:
            try:
                connection = schema.open_for_reading(path)
            except sqlite3.OperationalError:
                path.stat()
                raise
            except sqlite3.DatabaseError as error:
                raise RunError(
                    f"the segment {path} is damaged ({error}); move it away to read the others, without what it holds"
                ) from error
            if connection is None:
                return None
            self._opened[path] = Segment(connection, self._run_folder)
        return self._opened[path]

    def _first_seq(self, path: Path) -> int | None:
        if path not in self._first_seqs:
            segment = self._open(path)
            if segment is None:
                return None
            self._first_seqs[path] = segment.first_seq
        return self._first_seqs[path]

    def _close_all_but(self, keep: Path | None) -> None:
        # A delivery reads a long run for days: each segment that it left open would cost it three files.
        for path in [path for path in self._opened if path != keep]:
            self._opened.pop(path).connection.close()


class Segment:
    """One segment, open for reading."""

    def __init__(self, connection: sqlite3.Connection, run_folder: Path) -> None:
        self.connection = connection
        self._run_folder = run_folder
        self._series: dict[int, tuple[str, str]] = {}
        self._meta: dict[str, int] = dict(self.connection.execute("SELECT key, value FROM meta"))
        self.first_seq = self._meta["first_seq"]

    @property
    def level(self) -> int:
        """How often the content was thinned by half; 0 for a segment as it was written."""
        return self._meta.get("level", 0)

    def last_seq(self) -> int:
        """Number of the last artifact committed here, 0 when there is none."""
        if "last_seq" in self._meta:
            return self._meta["last_seq"]
        last: int = self.connection.execute(schema.LAST_SEQ).fetchone()[0]
        return last

    def ranges(self, *, fine: bool, scalars: bool = False) -> tuple[str, int]:
        """Returns the table of roll-ups, for a FROM clause, and the binary logarithm of the steps that each row covers.

        Args:
            fine: Whether the finest are wanted; else the summary, where there is one.
            scalars: Whether only those of scalars are wanted, which take less time while a segment is written.
        """
        if "last_seq" not in self._meta:
            return schema.OPEN_SCALAR_RANGES if scalars else schema.OPEN_RANGES, schema.ROLLUP_SHIFT
        table = "rollup" if fine else "summary"
        return schema.SEALED_RANGES[table], self._meta[f"{table}_shift"]

    def series(self) -> dict[int, tuple[str, str]]:
        """The (kind, name) of every series number."""
        known = len(self._series)
        rows = self.connection.execute("SELECT id, kind, name FROM series WHERE id > ?", (known,))
        self._series.update((number, (kind, name)) for number, kind, name in rows)
        return self._series

    def rows_of(self, kind: str, number: int) -> list[Any]:
        """The rows of one series, in no order."""
        table, columns = _TABLES.get(kind, ("artifact", ARTIFACT_COLUMNS))
        groups = (self.first_seq >> schema.GROUP_SHIFT, self.last_seq() >> schema.GROUP_SHIFT)
        return self.connection.execute(schema.select_series(table, columns), (*groups, number)).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One consistent view; an open reader makes the WAL grow, so it must be short."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def read(self, after: int, max_rows: int, *, leave_out_unreadable: bool = False) -> Batch | None:
        """The next batch of this segment after a sequence number.

        Raises:
            FileNotFoundError: When a file beside the store is gone, unless ``leave_out_unreadable``; damaged content
                raises what decoding it does.
        """
        with self.transaction():
            last = min(self.last_seq(), after + max_rows)
            if last <= after:
                return None
            started = self.connection.execute(
                "SELECT attempt, first_seq FROM attempt ORDER BY first_seq, attempt"
            ).fetchall()
            attempt = max(number for number, first in started if first <= after + 1)
            # An attempt that stored nothing starts where the next one does.
            last = min([last, *(first - 1 for _, first in started if first > after + 1)])
            series = self.series()
            others: dict[str, tuple[list[int], list[Artifact]]] = defaultdict(lambda: ([], []))
            payload = unreadable = 0
            for row in self.connection.execute(
                f"SELECT {ARTIFACT_COLUMNS} FROM artifact WHERE seq BETWEEN ? AND ? ORDER BY seq", (after + 1, last)
            ):
                kind, name = series[row[1]]
                seqs, artifacts = others[_COLUMN_OF_KIND[kind]]
                try:
                    artifacts.append(decode_artifact(kind, name, row, self._run_folder, check_files=True))
                except (FileNotFoundError, *DAMAGED):
                    if not leave_out_unreadable:
                        raise
                    unreadable += 1
                    continue
                seqs.append(row[0])
                payload += _payload_bytes(row, artifacts[-1])
                if payload > MAX_PAYLOAD_BYTES:
                    last = row[0]
                    break
            bounds = (after + 1, last)
            histograms = self.connection.execute(
                f"SELECT {HISTOGRAM_COLUMNS} FROM histogram WHERE seq BETWEEN ? AND ? ORDER BY seq", bounds
            ).fetchall()
            scalars = self.connection.execute(
                f"SELECT seq, series, step, time_ns, value FROM scalar WHERE {schema.between('scalar')} "
                f"ORDER BY {schema.in_order('scalar')}",
                bounds,
            ).fetchall()
        columns: dict[str, Any] = {key: Column(*pair) for key, pair in others.items()}
        if histograms:
            rows = histogram_rows(histograms, [series[row[1]][1] for row in histograms])
            columns["histograms"] = Column([row[0] for row in histograms], rows)
        batch = Batch(
            first_seq=after + 1,
            last_seq=last,
            attempt=attempt,
            scalars=_scalar_columns(scalars, series),
            **columns,
        )
        absent = last - after - len(batch) - unreadable
        return replace(batch, absent=absent, unreadable=unreadable) if absent or unreadable else batch


def histogram_rows(rows: Sequence[Any], names: Sequence[str]) -> HistogramRows:
    """Returns the histograms of rows of HISTOGRAM_COLUMNS.

    Raises:
        RunError: When a row holds no histogram.
    """
    _, _, _, steps, times_ns, blobs = zip(*rows, strict=True)
    return HistogramRows(names, np.array(steps, np.int64), np.array(times_ns, np.int64), decode(blobs))


def _scalar_columns(rows: list[Any], series: dict[int, tuple[str, str]]) -> ScalarColumns:
    if not rows:
        return ScalarColumns.of(())
    seqs, numbers, steps, times_ns, values = zip(*rows, strict=True)
    return ScalarColumns(
        seqs=np.array(seqs, dtype=np.int64),
        names=[series[number][1] for number in numbers],
        steps=np.array(steps, dtype=np.int64),
        times_ns=np.array(times_ns, dtype=np.int64),
        values=np.array(values, dtype=np.float64),  # NULL becomes NaN
    )


def _payload_bytes(row: Any, artifact: Artifact) -> int:
    return len(artifact.png) if isinstance(artifact, Image) else len(row[6] or b"")
