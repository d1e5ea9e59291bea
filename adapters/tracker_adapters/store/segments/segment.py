"""Writes batches of artifacts into the live segment, and seals it when it is full."""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from tracker_adapters.recording import Storable
from tracker_adapters.safe_files import remove_file
from tracker_adapters.store.layout import SCHEMA_VERSION, below_run, segment_name, segment_path, segments
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import StoreBlob
from tracker_adapters.store.segments.rows import Rows, SeriesNumbers
from tracker_adapters.store.segments.segment_state import segment_state

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 256 * 1024 * 1024
MAX_LOG_BYTES = 4 * 1024 * 1024
CLOSE_BUSY_TIMEOUT_MS = 2000


class SegmentWriter:
    """The one writer of a rank's segments. Used by one thread; numbers artifacts as they are committed."""

    def __init__(self, folder: Path, store_blob: StoreBlob, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Opens the last segment or makes the first one, and begins a new attempt.

        Args:
            folder: The rank's folder.
            store_blob: Keeps a payload beside the store and returns its SHA-256.
            segment_bytes: Size at which a segment is sealed, with the pages, files and large images beside it.
        """
        self._folder = folder
        self._store_blob = store_blob
        self._segment_bytes = segment_bytes
        self._log_bytes = min(MAX_LOG_BYTES, segment_bytes // 4)
        self._beside_bytes = 0
        existing = _complete_segments(folder)
        self.last_seq = self._rolled_seq = 0
        self.attempt = 1
        self.sealed = 0
        """How many segments were sealed."""
        if existing:
            self._path = existing[-1]
            self._connection = schema.open_for_writing(self._path, log_bytes=self._log_bytes)
            self._adopt_last_segment()
        else:
            self._open_new(0)

    def commit(self, items: Sequence[Storable]) -> None:
        """Stores the items in one transaction, numbered in their order.

        Raises:
            sqlite3.Error: When nothing was stored, for example because the disk is full.
            OSError: When nothing was stored, because a payload could not be written or the segment is gone.
        """
        # Before the transaction: once items are committed nothing may fail, or they would be stored again.
        self._make_ready()
        rows = Rows(self._series, self.attempt, self.last_seq, self._store_blob)
        rows.add(items)
        connection = self._connection
        connection.execute("BEGIN")
        try:
            connection.executemany("INSERT INTO series VALUES (?,?,?)", self._series.unstored())
            rows.insert(connection)
            is_due = rows.last_seq - self._rolled_seq >= schema.ROLLUP_ROWS
            if is_due:
                schema.roll_up(connection, rows.last_seq)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._series.mark_stored()
        self.last_seq = rows.last_seq
        if is_due:
            self._rolled_seq = rows.last_seq
        self._beside_bytes += rows.beside_bytes

    def close(self) -> None:
        """Folds the WAL into the segment, so that the file can be copied and read anywhere."""
        _fold_and_close(self._connection)

    def _adopt_last_segment(self) -> None:
        """Goes on in the last segment; where what it says about itself is damaged, behind it, in a new one."""
        connection = self._connection
        last = segment_state(connection, self._path)
        self.last_seq, self.attempt = last.last_seq, 1 + last.attempt
        if last.fault:
            logger.warning("%s is damaged: %s; the run continues in a new segment after it", self._path, last.fault)
            self._open_new(segment_name(self._path).last + 1)
            connection.close()
            return
        self._series, self._rolled_seq = SeriesNumbers(last.series), last.rolled_seq
        if last.is_sealed:  # as compacting a run that nobody writes does
            self._go_on()
        else:
            connection.execute("INSERT INTO attempt VALUES (?,?,?)", self._attempt_row())

    def _make_ready(self) -> None:
        if not self._path.exists():  # SQLite would go on writing into a file that nobody can open again
            raise FileNotFoundError(f"{self._path} was deleted")
        if self._is_full():
            self._go_on()

    def _go_on(self) -> None:
        """Seals the segment and opens the next one."""
        sealed, last_seq = self._connection, self.last_seq
        self._open_new(segment_name(self._path).last + 1)
        # A segment without its seal is as complete; readers then take its roll-ups for its summary.
        with contextlib.suppress(sqlite3.Error):
            schema.seal(sealed, last_seq)
        _fold_and_close(sealed)
        self.sealed += 1

    def _is_full(self) -> bool:
        pages, page_size = (
            self._connection.execute(f"PRAGMA {key}").fetchone()[0] for key in ("page_count", "page_size")
        )
        full: bool = pages * page_size + self._beside_bytes >= self._segment_bytes
        return full

    def _open_new(self, number: int) -> None:
        """Goes on to a new segment; when that fails, everything stays as it was."""
        path = segment_path(self._folder, number)
        connection = schema.open_for_writing(path, log_bytes=self._log_bytes)
        try:
            # A reader that meets the file before this transaction's end finds no tables and comes back later.
            connection.executescript(f"BEGIN; {schema.DDL_TABLES} {schema.DDL_INDEXES}")
            connection.executemany(
                "INSERT INTO meta VALUES (?,?)",
                [("schema_version", SCHEMA_VERSION), ("first_seq", self.last_seq + 1)],
            )
            connection.execute("INSERT INTO attempt VALUES (?,?,?)", self._attempt_row())
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            _remove(path)
            raise
        self._connection = connection
        self._path = path
        self._series = SeriesNumbers()
        self._rolled_seq = self.last_seq
        self._beside_bytes = 0

    def _attempt_row(self) -> tuple[int, int, int]:
        return self.attempt, self.last_seq + 1, time.time_ns()


def _fold_and_close(connection: sqlite3.Connection) -> None:
    # Readers end their transactions quickly, but stay connected: then the file is complete and stays in WAL mode.
    with contextlib.suppress(sqlite3.Error):
        connection.execute(f"PRAGMA busy_timeout={CLOSE_BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()


def _complete_segments(folder: Path) -> list[Path]:
    """The segments of a folder; one that a crash left without tables is removed."""
    found = segments(folder)
    if found and not schema.is_complete(found[-1]):
        _remove(found.pop())
    return found


def _remove(segment: Path) -> None:
    with contextlib.suppress(OSError):
        for suffix in ("", "-wal", "-shm"):
            remove_file(*below_run(Path(f"{segment}{suffix}")), missing_ok=True)
