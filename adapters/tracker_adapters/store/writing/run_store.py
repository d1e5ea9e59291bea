"""RunStore: takes artifacts from any thread and commits them from one."""

from __future__ import annotations

import ctypes
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tracker_adapters.artifacts import File, Page
from tracker_adapters.recording import Deferred, Recordable, Storable, artifact_count, singles
from tracker_adapters.store.blobs import adopt_file
from tracker_adapters.store.layout import WRITER_LOCK, blob_path, rank_folder
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.segments.segment import SEGMENT_BYTES
from tracker_adapters.store.writing.deferred_queue import DeferredQueue
from tracker_adapters.store.writing.emit_queue import (
    COMMIT_INTERVAL_S,
    FORKED,
    Barrier,
    EmitQueue,
    Item,
    Sized,
    StoreCounts,
    scalar_bytes,
)
from tracker_adapters.store.writing.gate import Gate
from tracker_adapters.store.writing.opening import open_segments

logger = logging.getLogger(__name__)

QUEUE_BYTES = 64 * 1024 * 1024
IDLE_TICK_S = 1.0
RETRY_INTERVAL_S = 0.5
NOT_WRITABLE = "store_not_writable"

_stores: weakref.WeakSet[RunStore] = weakref.WeakSet()


class RunStore:
    """The write side of one rank's store; a Recorder for emitters.

    ``put`` queues and returns; one thread commits at the latest 100 ms after the first artifact of a batch.
    The queue holds 64 MB: beyond that ``put`` waits at most 50 ms, then drops and counts. Nothing raises
    because of the store: what is lost is counted by reason and logged once.
    """

    def __init__(
        self,
        run_folder: Path,
        *,
        rank: int = 0,
        resume: bool = False,
        queue_bytes: int = QUEUE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        max_run_bytes: int | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        """Takes the writer's lock and starts the writer thread.

        Args:
            run_folder: The run's folder, which exists.
            rank: The process's rank.
            resume: Whether to go on in a store that exists, as a new attempt.
            queue_bytes: How much may wait for the writer thread.
            segment_bytes: Size at which a segment is sealed.
            max_run_bytes: What the run may take: older segments are compacted to stay within it. None for no limit.
            on_tick: Called by the writer thread after commits, and every second while idle.

        Raises:
            RunError: When the store cannot be opened: busy, damaged, or there without ``resume``; see ``opening``.
        """
        self.run_folder = run_folder
        self.folder = rank_folder(run_folder, rank)
        self.max_run_bytes = max_run_bytes
        self._compaction = None
        if max_run_bytes is not None:
            # Only a run within a limit needs what compacts stores.
            from tracker_adapters.store.upkeep.compaction_process import CompactionProcess

            self._compaction = CompactionProcess(run_folder, max_run_bytes, segment_bytes)
            segment_bytes = self._compaction.segment_bytes
        self._lock_file = FileLock(self.folder / WRITER_LOCK)
        self._segment = open_segments(
            run_folder, self.folder, self._lock_file, resume=resume, segment_bytes=segment_bytes
        )
        self.attempt = self._segment.attempt
        self.error: Exception | None = None
        """The last failure, whether it was overcome or not."""
        self.cpu_seconds = 0.0
        """What the writer thread has used of a processor."""
        self._queue = EmitQueue(queue_bytes, stored=self._segment.last_seq)
        self._deferred = DeferredQueue(self._lose_unbuilt)
        self._on_tick = on_tick
        self._on_close: Callable[[], None] | None = None
        self._closing = Gate()
        self._closed = Gate()
        self._failing = False
        _stores.add(self)
        self._thread = threading.Thread(target=self._run, name="stepscope-store", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        """Number of the last committed artifact."""
        return self.counts().stored

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's store, which writes nothing."""
        return self._queue.refusal == FORKED

    @property
    def is_in_place(self) -> bool:
        """Whether the run's folder is still where it was; someone may delete it, and even make another run there."""
        return self._lock_file.is_in_place

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write failed, and is being repeated."""
        return self._failing

    def put(self, item: Recordable, nbytes: int) -> None:
        """Queues an artifact or a block; see the class for what happens when the queue is full."""
        self._queue.put(item, nbytes)

    def adopt(self, artifact: Page | File) -> Page | File | None:
        """Takes a file into the run's folder; None, counted as lost, when that fails."""
        if self._queue.refusal is not None:
            self._queue.lose(self._queue.refusal)
            return None
        try:
            self._check_place()
            sha256 = adopt_file(self.run_folder, artifact.path, artifact.sha256, link=isinstance(artifact, Page))
            path = blob_path(self.run_folder, sha256)
            return replace(artifact, path=path, sha256=sha256, size=path.stat().st_size)
        except OSError as error:
            self._queue.lose("file_not_copied", f"{artifact.kind} {artifact.name!r}: {error}")
            return None

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything put before is committed, or counted as lost.

        Args:
            timeout: Seconds; None waits as long as the store can be written.

        Returns:
            Whether it is; always false in a forked child.
        """
        if self.is_inherited:
            return False
        barrier = self._queue.put_barrier()
        passed = self._closed if barrier is None else barrier.passed
        if timeout is not None:
            return passed.wait(timeout)
        while not passed.wait(RETRY_INTERVAL_S):
            if self._failing:
                return False
        return True

    def counts(self) -> StoreCounts:
        """Returns the counts of this run and rank, with what earlier attempts stored."""
        return self._queue.counts()

    def close(self, timeout: float | None = 10.0, on_close: Callable[[], None] | None = None) -> bool:
        """Commits what is queued and releases the run; False when that took longer than ``timeout`` seconds.

        Later artifacts are counted as lost. A second call waits for the first one.

        Args:
            timeout: Seconds; None waits as long as it takes.
            on_close: Called by the writer thread when everything is stored, just before the run is released.
        """
        if self.is_inherited:
            return False
        if not self._closing.is_open:
            self._on_close = on_close
        self._closing.open()
        self._queue.put_barrier(stop=True)
        return self._closed.wait(timeout)

    def _run(self) -> None:
        while not self._closed.is_open:
            items = self._queue.take(0.0, 0.0) if self._deferred else self._queue.take(IDLE_TICK_S)
            # What need not be built is committed before, and every 50 ms while something is.
            self._pass(self._deferred.sort(items))
            if self._deferred:
                self._pass(self._deferred.advance(time.monotonic() + COMMIT_INTERVAL_S))
            if not self._closed.is_open:
                _guarded(self._on_tick)
                _guarded(self._compact)
            self.cpu_seconds = time.thread_time()

    def _compact(self) -> None:
        if self._compaction is not None:
            self._compaction.look(self._segment.sealed)

    def _pass(self, items: list[Item]) -> None:
        rows: list[Storable] = []
        nbytes = 0
        for item in items:
            if isinstance(item, tuple):
                rows.append(item)
                nbytes += scalar_bytes(item)
            elif isinstance(item, Sized):
                assert not isinstance(item.item, Deferred)
                rows.append(item.item)
                nbytes += item.nbytes
        self._store(rows, nbytes)
        if any(isinstance(item, Barrier) and item.stop for item in items):
            self._shut()
        for item in items:
            if isinstance(item, Barrier):
                item.passed.open()

    def _lose_unbuilt(self, item: Sized, error: Exception) -> None:
        assert isinstance(item.item, Deferred)
        self._lose_unencoded(f"{item.item.kind} {item.item.name!r}", error, item.nbytes)

    def _store(self, rows: list[Storable], nbytes: int) -> None:
        while rows:
            try:
                self._check_place()
                self._segment.commit(rows)
            except Exception as error:
                self.error = error
                if not _is_of_the_medium(error):
                    self._store_one_by_one(rows, nbytes, error)
                    return
                if not self._failing:
                    self._failing = True
                    logger.error("stepscope cannot write to %s: %s; retrying", self.folder, error)
                if self._closing.is_open:
                    self._queue.settle(lost=sum(map(artifact_count, rows)), reason=NOT_WRITABLE, nbytes=nbytes)
                    return
                # The queue fills meanwhile, and then counts what it drops.
                self._closing.wait(RETRY_INTERVAL_S)
            else:
                self._failing = False
                self._queue.settle(stored=sum(map(artifact_count, rows)), nbytes=nbytes)
                return

    def _check_place(self) -> None:
        if not self.is_in_place:  # SQLite would go on writing into a file that has no name any more
            raise FileNotFoundError(f"{self.folder} was deleted or moved")

    def _store_one_by_one(self, rows: list[Storable], nbytes: int, error: Exception) -> None:
        """Stores what can be stored when something that SQLite cannot hold is among it."""
        alone = [single for row in rows for single in singles(row)]
        if len(alone) == 1:
            self._lose_unencoded(repr(alone[0])[:200], error, nbytes)
            return
        for row in alone:
            self._store([row], 0)
        self._queue.settle(nbytes=nbytes)

    def _lose_unencoded(self, what: str, error: Exception, nbytes: int) -> None:
        self.error = error
        self._queue.settle(lost=1, reason="not_encoded", nbytes=nbytes)
        self._queue.warn_once("not_encoded", f"{what}: {error!r}")

    def _shut(self) -> None:
        _guarded(self._segment.close)
        _guarded(self._on_close)
        if self._compaction is not None:
            self._compaction.abandon()
        self._lock_file.release()
        self._closed.open()

    def _disown(self) -> None:
        """In a forked child: the writer thread did not come along, and SQLite must not be touched."""
        self._queue.disown()
        # Closing what is inherited would checkpoint the parent's database, or wait for a lock that its thread held:
        # it stays open, also when the child's interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._segment))


def _is_of_the_medium(error: Exception) -> bool:
    """Whether a failure may pass, such as a full disk; any other one is about what is written."""
    return isinstance(error, (OSError, sqlite3.OperationalError)) or type(error) is sqlite3.DatabaseError


def _guarded(call: Callable[[], None] | None) -> None:
    if call is not None:
        try:
            call()
        except Exception:
            logger.exception("stepscope's maintenance of the run failed")


os.register_at_fork(after_in_child=lambda: [*map(RunStore._disown, list(_stores))])
