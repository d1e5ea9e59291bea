"""Opens a rank's segments, while compaction may replace them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from tracker_adapters.errors import DamagedError, RunError, UnsafeFileError
from tracker_adapters.store import layout
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.opened import Segment

T = TypeVar("T")
MAX_LOOKS = 10


def looked_again(read: Callable[[], T]) -> T:
    """Returns what ``read`` returns; it is called again when a segment was compacted in between.

    The segment that stands for it is there before it goes.

    Raises:
        FileNotFoundError: When ``read`` raised it each time.
    """
    for _ in range(MAX_LOOKS):
        with suppress(FileNotFoundError):
            return read()
    return read()


def open_segment(path: Path, run_folder: Path) -> Segment | None:
    """Opens a segment for reading; None while it has no tables yet. The caller closes its connection.

    Raises:
        FileNotFoundError: When it is gone.
        DamagedError: When it is damaged, or no regular file.
        sqlite3.OperationalError: When it cannot be read for another reason.
    """
    try:
        connection = schema.open_for_reading(path)
    except sqlite3.OperationalError:
        path.stat()
        raise
    except (sqlite3.DatabaseError, UnsafeFileError) as error:
        raise damage(path, error) from error
    if connection is None:
        return None
    try:
        return Segment(connection, run_folder)
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise damage(path, error) from error


def damage(path: Path, error: Exception) -> DamagedError:
    """Returns the error that says that a segment is damaged."""
    return DamagedError(f"the segment {path} is damaged ({error}); move it away to read the other segments")


@contextmanager
def opened_segment(path: Path, run_folder: Path) -> Iterator[Segment | None]:
    """Opens a segment for the block, as ``open_segment``; SQLite's errors become RunError.

    Raises:
        FileNotFoundError: When it is gone.
        RunError: When it cannot be read.
    """
    try:
        segment = open_segment(path, run_folder)
        try:
            yield segment
        finally:
            if segment is not None:
                segment.connection.close()
    except sqlite3.Error as error:
        raise RunError(f"cannot read {path}: {error}") from error


def opened_segments(run_folder: Path, rank: int) -> Iterator[tuple[Segment, int]]:
    """Opens the segments of a rank in turn; yields each with the last number that those before it covered.

    A compaction may replace segments meanwhile: then the one that stands for them is opened.

    Raises:
        RunError: When one cannot be read.
    """
    folder = layout.rank_folder(run_folder, rank)
    reached, after = -1, 0
    while True:
        with ExitStack() as stack:
            found = looked_again(partial(_next_opened, stack, folder, run_folder, reached))
            if found is None:
                return
            reached, segment = found
            if segment is not None:
                yield segment, after
                if _next_path(folder, reached) is None:
                    return
                after = max(after, segment.last_seq())


def _next_opened(stack: ExitStack, folder: Path, run_folder: Path, reached: int) -> tuple[int, Segment | None] | None:
    """The first segment behind the one whose name says ``reached``, with what its own name says; None at the end."""
    path = _next_path(folder, reached)
    if path is None:
        return None
    return layout.segment_name(path).last, stack.enter_context(opened_segment(path, run_folder))


def _next_path(folder: Path, reached: int) -> Path | None:
    return next((path for path in layout.segments(folder) if layout.segment_name(path).last > reached), None)
