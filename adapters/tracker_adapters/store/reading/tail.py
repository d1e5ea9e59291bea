"""Reads a rank's store in order, from any position, while it is written."""

import logging
import sqlite3
from pathlib import Path

from tracker_adapters.batch import Batch
from tracker_adapters.errors import DamagedError, RunError, UnsafeFileError
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.reading.segments import damage, looked_again, open_segment
from tracker_adapters.store.segments.codec import DAMAGED
from tracker_adapters.store.segments.opened import Segment

logger = logging.getLogger(__name__)

MAX_ROWS = 10_000


class StoreReader:
    """A reader of one rank's segments; used by one thread at a time. Each read is one short transaction."""

    def __init__(self, run_folder: Path, rank: int = 0) -> None:
        self._run_folder = run_folder
        self._folder = rank_folder(run_folder, rank)
        self._opened: dict[Path, Segment] = {}
        self._first_seqs: dict[Path, int] = {}
        self._damaged: dict[Path, RunError] = {}
        """The segments that cannot be opened, and why."""

    def segments(self) -> list[Segment]:
        """Returns the segments that exist now, opened, in order."""
        return looked_again(self._segments)

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
            return looked_again(lambda: self._read(after, max_rows))
        except sqlite3.OperationalError:
            raise
        except (FileNotFoundError, UnsafeFileError, sqlite3.DatabaseError, *DAMAGED):
            if not self._run_folder.exists():
                raise
            return looked_again(lambda: self._read(after, max_rows, leave_out_unreadable=True))

    def close(self) -> None:
        """Closes the connections."""
        self._close_all_but(None)

    def damage(self) -> list[RunError]:
        """Returns why segments were left out, so far."""
        return list(self._damaged.values())

    def _segments(self) -> list[Segment]:
        paths = segments(self._folder)
        for path in self._opened.keys() - set(paths):
            self._opened.pop(path).connection.close()
        # Where only one of several is damaged, the others are read.
        opened = [self._opened[path] for path in paths if self._first_seq(path) is not None and self._open(path)]
        if self._damaged and not opened:
            raise next(iter(self._damaged.values()))
        return opened

    def _read(self, after: int, max_rows: int, *, leave_out_unreadable: bool = False) -> Batch | None:
        paths = segments(self._folder)
        next_seq: int | None = None
        for path in reversed(paths):
            first_seq = self._first_seq(path)
            if first_seq is not None and first_seq <= after + 1:
                self._close_all_but(path)
                segment = self._open(path)
                if segment is None:
                    return None
                try:
                    batch = segment.read(after, max_rows, leave_out_unreadable=leave_out_unreadable)
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError as error:
                    if not leave_out_unreadable:
                        raise
                    self._leave_out(path, damage(path, error))
                    return self._read(after, max_rows, leave_out_unreadable=True)
                if batch is not None:
                    return batch
                break
            next_seq = next_seq if first_seq is None else first_seq
        if next_seq is not None and next_seq > after + 1 and segments(self._folder) == paths:
            # What lay between was moved away or cannot be opened; a pass that is cut short changes no path.
            return Batch(first_seq=after + 1, last_seq=next_seq - 1, unreadable=next_seq - 1 - after)
        if paths and paths[-1] in self._damaged:
            raise self._damaged[paths[-1]]
        return None

    def _open(self, path: Path) -> Segment | None:
        if path not in self._opened:
            segment = open_segment(path, self._run_folder)
            if segment is None:
                return None
            self._opened[path] = segment
        return self._opened[path]

    def _first_seq(self, path: Path) -> int | None:
        if path in self._damaged:
            return None
        if path not in self._first_seqs:
            try:
                segment = self._open(path)
            except DamagedError as error:
                self._leave_out(path, error)
                return None
            if segment is None:
                return None
            self._first_seqs[path] = segment.first_seq
        return self._first_seqs[path]

    def _leave_out(self, path: Path, error: DamagedError) -> None:
        if len(segments(self._folder)) > 1:  # else it is raised
            logger.error("%s", error)
        self._damaged[path] = error
        if path in self._opened:
            self._opened.pop(path).connection.close()

    def _close_all_but(self, keep: Path | None) -> None:
        # A delivery reads a long run for days: each segment that it left open would cost it three files.
        for path in [path for path in self._opened if path != keep]:
            self._opened.pop(path).connection.close()
