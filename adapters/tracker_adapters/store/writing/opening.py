"""Opens a rank's store for its one writer; an error says in one sentence why it cannot be opened."""

import logging
import sqlite3
from pathlib import Path

from tracker_adapters.errors import RunBusyError, RunError, RunExistsError
from tracker_adapters.safe_files import make_folders
from tracker_adapters.store.blobs import store_bytes
from tracker_adapters.store.connections import unshare
from tracker_adapters.store.layout import DELIVERY_DATABASE, below_run, segments
from tracker_adapters.store.ledger import Ledger, unshare_ledger
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.segments.segment import SegmentWriter

LOCK_TIMEOUT_S = 1.0

logger = logging.getLogger(__name__)


def open_segments(run_folder: Path, folder: Path, lock: FileLock, *, resume: bool, segment_bytes: int) -> SegmentWriter:
    """Takes the writer's lock, and opens the last segment or makes the first one.

    Args:
        run_folder: The run's folder.
        folder: The rank's folder; made when it does not exist.
        lock: The writer's lock; free again when opening fails.
        resume: Whether to go on with segments that exist.
        segment_bytes: Size at which a segment is sealed.

    Raises:
        RunExistsError: When there is a store and ``resume`` is false.
        RunBusyError: When another live process writes to it.
        RunError: When it cannot be opened, for example because its last segment is damaged.
    """
    try:
        make_folders(*below_run(folder))
        if not lock.acquire_within(LOCK_TIMEOUT_S):
            raise RunBusyError(f"another live process writes to {run_folder}; stop it, or choose another folder")
        if segments(folder) and not resume:
            raise RunExistsError(
                f"{run_folder} already holds a run ({folder.name}); pass resume=True to go on with it, "
                "or choose another folder"
            )
        for last in segments(folder)[-1:]:
            unshare(last)
        unshare_ledger(folder)
        writer = SegmentWriter(folder, lambda content: store_bytes(run_folder, content), segment_bytes=segment_bytes)
        _pass_over_delivered(folder, writer)
    except BaseException as error:
        lock.release()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise RunError(_damage(folder, error)) from error
        if isinstance(error, (sqlite3.Error, OSError)) and not isinstance(error, RunError):
            raise RunError(f"cannot open the run store {folder}: {error}") from error
        raise
    return writer


def _pass_over_delivered(folder: Path, writer: SegmentWriter) -> None:
    """Goes on after the last number that a sink has, when a power cut or a removed segment took it from the store.

    A number that was given twice would be taken for delivered.
    """
    if not (folder / DELIVERY_DATABASE).is_file():
        return
    try:
        with Ledger(folder) as ledger:
            delivered = max((position.seq for position in ledger.positions().values()), default=0)
    except sqlite3.DatabaseError:  # delivery says so, and mends it
        return
    if missing := max(0, delivered - writer.last_seq):
        logger.warning(
            "%s has lost its last %d artifacts, which a sink has received; it continues after them", folder, missing
        )
        writer.last_seq = delivered


def _damage(folder: Path, error: sqlite3.DatabaseError) -> str:
    return (
        f"cannot open the run store: its last segment {segments(folder)[-1]} is damaged ({error}); start a new run in "
        "another folder, or move this file away to read the segments before it and to continue without its contents"
    )
