"""Writes batches of artifacts into the live segment, and seals it when it is full."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from tracker_adapters.artifacts import Artifact, Histogram, Scalar
from tracker_adapters.emitter import ScalarRow
from tracker_adapters.store import schema
from tracker_adapters.store.codec import (
    INSERT_ARTIFACT,
    INSERT_HISTOGRAM,
    INSERT_SCALAR,
    StoreBlob,
    artifact_values,
    histogram_values,
)
from tracker_adapters.store.layout import SCHEMA_VERSION, segment_path, segments

SEGMENT_BYTES = 256 * 1024 * 1024
CLOSE_BUSY_TIMEOUT_MS = 2000


class SegmentWriter:
    """The one writer of a rank's segments. Used by one thread; numbers artifacts as they are committed."""

    def __init__(self, folder: Path, store_blob: StoreBlob, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Opens the last segment or makes the first one, and begins a new attempt.

        Args:
            folder: The rank's folder.
            store_blob: Keeps a payload beside the store and returns its SHA-256.
            segment_bytes: Size at which a segment is sealed.
        """
        self._folder = folder
        self._store_blob = store_blob
        self._segment_bytes = segment_bytes
        existing = _complete_segments(folder)
        self._number = len(existing) - 1
        self.last_seq = 0
        self.attempt = 1
        if existing:
            self._connection = schema.open_for_writing(existing[-1])
            self._adopt_last_segment()
        else:
            self._open_next()
        self._begin_attempt()

    def commit(self, items: Sequence[ScalarRow | Artifact]) -> None:
        """Stores the items in one transaction, numbered in their order.

        Raises:
            sqlite3.Error: When nothing could be stored, for example because the disk is full.
        """
        seq = self.last_seq
        series = self._series
        attempt = self.attempt
        scalars, histograms, others = [], [], []
        for item in items:
            seq += 1
            if isinstance(item, tuple):
                name, step, time_ns, value = item
                key = ("scalar", name)
            else:
                name, step, time_ns, key = item.name, item.step, item.time_ns, (item.kind, item.name)
            number = series.get(key)
            if number is None:
                number = series[key] = len(series) + 1
            start = (seq, number, attempt, step, time_ns)
            if isinstance(item, tuple):
                scalars.append((*start, value))
            elif isinstance(item, Histogram):
                histograms.append((*start, *histogram_values(item)))
            elif isinstance(item, Scalar):
                scalars.append((*start, item.value))
            else:
                others.append((*start, *artifact_values(item, self._store_blob)))
        connection = self._connection
        connection.execute("BEGIN")
        try:
            connection.executemany("INSERT INTO series VALUES (?,?,?)", self._new_series())
            connection.executemany(INSERT_SCALAR, scalars)
            if scalars:
                connection.execute(schema.UPDATE_ROLLUPS, (self.last_seq + 1, seq))
            connection.executemany(INSERT_HISTOGRAM, histograms)
            connection.executemany(INSERT_ARTIFACT, others)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._stored_series = len(series)
        self.last_seq = seq
        self._seal_if_full()

    def close(self) -> None:
        """Folds the WAL into the segment, so that the file can be copied and read anywhere."""
        self._connection.execute(f"PRAGMA busy_timeout={CLOSE_BUSY_TIMEOUT_MS}")
        # Readers end their transactions quickly, but stay connected: then the file is complete and stays in WAL mode.
        with contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.execute("PRAGMA busy_timeout=0")
            self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()

    def _adopt_last_segment(self) -> None:
        rows = self._connection.execute("SELECT kind, name, id FROM series").fetchall()
        self._series: dict[tuple[str, str], int] = {(kind, name): number for kind, name, number in rows}
        self._stored_series = len(self._series)
        first_seq = self._connection.execute("SELECT value FROM meta WHERE key = 'first_seq'").fetchone()[0]
        self.last_seq = max(self._connection.execute(schema.LAST_SEQ).fetchone()[0], first_seq - 1)
        self.attempt = 1 + (self._connection.execute("SELECT max(attempt) FROM attempt").fetchone()[0] or 0)

    def _open_next(self) -> None:
        self._number += 1
        self._series = {}
        self._stored_series = 0
        self._connection = schema.open_for_writing(segment_path(self._folder, self._number))
        # A reader that meets the file before this commit finds no tables and comes back later.
        self._connection.executescript(f"BEGIN; {schema.DDL}")
        self._connection.executemany(
            "INSERT INTO meta VALUES (?,?)",
            [("schema_version", SCHEMA_VERSION), ("first_seq", self.last_seq + 1)],
        )
        self._connection.execute("COMMIT")

    def _begin_attempt(self) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO attempt VALUES (?,?,?)", (self.attempt, self.last_seq + 1, time.time_ns())
        )

    def _new_series(self) -> list[tuple[int, str, str]]:
        if len(self._series) == self._stored_series:
            return []
        return [(number, *key) for key, number in self._series.items() if number > self._stored_series]

    def _seal_if_full(self) -> None:
        pages, page_size = (
            self._connection.execute(f"PRAGMA {key}").fetchone()[0] for key in ("page_count", "page_size")
        )
        if pages * page_size < self._segment_bytes:
            return
        self.close()
        self._open_next()
        self._begin_attempt()


def _complete_segments(folder: Path) -> list[Path]:
    """The segments of a folder; one that a crash left without tables is removed."""
    found = segments(folder)
    if found and not schema.has_tables(found[-1]):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{found[-1]}{suffix}").unlink(missing_ok=True)
        found.pop()
    return found
