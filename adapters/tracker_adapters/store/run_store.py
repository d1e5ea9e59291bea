"""RunStore: takes artifacts from any thread and commits them from one."""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tracker_adapters.artifacts import Artifact, File, Page
from tracker_adapters.emitter import Deferred, ScalarRow
from tracker_adapters.errors import RunBusyError, RunExistsError
from tracker_adapters.store.blobs import adopt_file, store_bytes
from tracker_adapters.store.layout import WRITER_LOCK, rank_folder, segments
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.segment import SEGMENT_BYTES, SegmentWriter

logger = logging.getLogger(__name__)

QUEUE_BYTES = 64 * 1024 * 1024
SCALAR_BYTES = 256
"""What a queued scalar takes in memory, its share of the queue included."""
MAX_ROWS = 10_000
COMMIT_INTERVAL_S = 0.05
"""Half of the 100 ms in which an artifact must be committed; the commit itself has the rest."""
FULL_QUEUE_WAIT_S = 0.05
IDLE_TICK_S = 1.0
RETRY_INTERVAL_S = 0.5
FORKED = "emitted_in_forked_process"


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What became of the artifacts emitted so far: emitted = stored + queued + the sum of lost."""

    emitted: int
    stored: int
    queued: int
    lost: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sized:
    item: Artifact | Deferred
    nbytes: int


class _Barrier:
    def __init__(self, *, stop: bool = False) -> None:
        self.stop = stop
        self.passed = threading.Event()


_Item: TypeAlias = ScalarRow | _Sized | _Barrier
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
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        """Takes the writer's lock and starts the writer thread.

        Args:
            run_folder: The run's folder, which exists.
            rank: The process's rank.
            resume: Whether to go on in a store that exists, as a new attempt.
            queue_bytes: How much may wait for the writer thread.
            segment_bytes: Size at which a segment is sealed.
            on_tick: Called by the writer thread after commits, and every second while idle.

        Raises:
            RunExistsError: When there is a store and ``resume`` is false.
            RunBusyError: When another live process writes to it.
        """
        self.run_folder = run_folder
        self.folder = rank_folder(run_folder, rank)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = _acquire(self.folder / WRITER_LOCK, run_folder)
        if segments(self.folder) and not resume:
            self._lock_file.release()
            raise RunExistsError(
                f"{run_folder} already holds a run (rank {rank}); pass resume=True to go on with it, "
                "or choose another folder"
            )
        self._segment = SegmentWriter(
            self.folder, lambda content: store_bytes(run_folder, content), segment_bytes=segment_bytes
        )
        self.attempt = self._segment.attempt
        self._queue_bytes = queue_bytes
        self._on_tick = on_tick
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._room = threading.Event()
        self._stopping = threading.Event()
        # Re-entrant: an object whose __del__ emits may be collected while this thread holds it.
        self._lock = threading.RLock()
        self._held_bytes = 0
        self._taken = 0
        self._stored = 0
        self._lost: Counter[str] = Counter()
        self._logged: set[str] = set()
        self._refusal: str | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="stepscope-store", daemon=True)
        self._thread.start()
        _stores.add(self)

    @property
    def last_seq(self) -> int:
        """Number of the last committed artifact."""
        return self._segment.last_seq

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's store, which writes nothing."""
        return self._refusal == FORKED

    def put(self, item: ScalarRow | Artifact | Deferred, nbytes: int) -> None:
        """Queues an artifact; see the class for what happens when the queue is full."""
        if self._refusal is not None:
            self._lose(self._refusal)
            return
        if (
            self._queue.qsize() * SCALAR_BYTES + self._held_bytes + nbytes > self._queue_bytes
            and not self._wait_for_room(nbytes)
        ):
            self._lose("queue_full")
            return
        if isinstance(item, tuple):
            self._queue.put(item)
            return
        with self._lock:
            self._held_bytes += nbytes
        self._queue.put(_Sized(item, nbytes))

    def adopt(self, artifact: Page | File) -> Page | File | None:
        """Takes a file into the run's folder; None, counted as lost, when that fails."""
        if self._refusal is not None:
            self._lose(self._refusal)
            return None
        try:
            path = adopt_file(self.run_folder, artifact.path, artifact.sha256, link=isinstance(artifact, Page))
        except OSError as error:
            self._lose("file_not_copied", f"{artifact.kind} {artifact.name!r}: {error}")
            return None
        return artifact.stored_at(path)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything put before is committed; False when ``timeout`` seconds were not enough."""
        if self._refusal is not None:
            return self._queue.empty()
        barrier = _Barrier()
        self._queue.put(barrier)
        self._hurry.set()
        return barrier.passed.wait(timeout)

    def counts(self) -> StoreCounts:
        """Returns the counts; after ``flush`` nothing is queued."""
        with self._lock:
            lost, stored = dict(self._lost), self._stored
        queued = self._queue.qsize() + self._taken - stored
        return StoreCounts(
            emitted=stored + queued + sum(lost.values()), stored=stored, queued=max(queued, 0), lost=lost
        )

    def close(self, timeout: float | None = 10.0) -> bool:
        """Commits what is queued and releases the run; False when that took longer than ``timeout`` seconds.

        Later artifacts are counted as lost. A second call does nothing.
        """
        with self._lock:
            if self._refusal is not None:
                return not self._thread.is_alive()
            self._refusal = "emitted_after_close"
        self._stopping.set()
        barrier = _Barrier(stop=True)
        self._queue.put(barrier)
        self._hurry.set()
        return barrier.passed.wait(timeout)

    def _wait_for_room(self, nbytes: int) -> bool:
        if threading.current_thread() is self._thread:
            return True
        deadline = time.monotonic() + FULL_QUEUE_WAIT_S
        while (left := deadline - time.monotonic()) > 0:
            self._room.clear()
            self._hurry.set()
            if self._queue.qsize() * SCALAR_BYTES + self._held_bytes + nbytes <= self._queue_bytes:
                return True
            self._room.wait(left)
        return False

    def _lose(self, reason: str, detail: str = "") -> None:
        with self._lock:
            self._lost[reason] += 1
            first = reason not in self._logged
            self._logged.add(reason)
        if not first:
            return
        if reason == FORKED:
            warnings.warn(
                "this forked process writes nothing to its parent's run; what it emits is counted and dropped",
                RuntimeWarning,
                stacklevel=4,
            )
        else:
            logger.warning("stepscope lost an artifact: %s %s; further ones are only counted", reason, detail)

    def _run(self) -> None:
        while True:
            try:
                items = [self._queue.get(timeout=IDLE_TICK_S)]
            except queue.Empty:
                self._tick()
                continue
            # Sleeping once a batch, instead of waking for each artifact, leaves the interpreter to the training loop.
            self._hurry.wait(COMMIT_INTERVAL_S)
            self._hurry.clear()
            while len(items) < MAX_ROWS and not (isinstance(items[-1], _Barrier) and items[-1].stop):
                try:
                    items.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            self._taken += sum(not isinstance(item, _Barrier) for item in items)
            if self._queue.qsize():
                self._hurry.set()
            if self._commit(items):
                return

    def _commit(self, items: list[_Item]) -> bool:
        """Commits a batch and lets its barriers pass; returns whether it was the last one."""
        barriers = [item for item in items if isinstance(item, _Barrier)]
        rows: list[ScalarRow | Artifact] = []
        freed = 0
        for item in items:
            if isinstance(item, tuple):
                rows.append(item)
            elif isinstance(item, _Sized):
                freed += item.nbytes
                built = self._build(item.item)
                if built is not None:
                    rows.append(built)
        stop = any(barrier.stop for barrier in barriers)
        if rows:
            self._store(rows, stop)
        if freed:
            with self._lock:
                self._held_bytes -= freed
        self._room.set()
        if stop:
            self._shut()
        for barrier in barriers:
            barrier.passed.set()
        if not stop:
            self._tick()
        return stop

    def _build(self, item: Artifact | Deferred) -> Artifact | None:
        if not isinstance(item, Deferred):
            return item
        try:
            return item.build()
        except Exception as error:
            self._taken -= 1
            self._lose("not_encoded", f"{item.kind} {item.name!r}: {error!r}")
            self.error = error
            return None

    def _store(self, rows: list[ScalarRow | Artifact], last: bool) -> None:
        while True:
            try:
                self._segment.commit(rows)
            except (sqlite3.Error, OSError) as error:
                self.error = error
                if "store" not in self._logged:
                    self._logged.add("store")
                    logger.error("stepscope cannot write to %s: %s; it keeps trying", self.folder, error)
                if not last and self._refusal is None:
                    # The queue fills meanwhile, and then counts what it drops.
                    self._stopping.wait(RETRY_INTERVAL_S)
                    continue
                with self._lock:
                    self._taken -= len(rows)
                    self._lost["store_not_writable"] += len(rows)
                return
            else:
                self._logged.discard("store")
                with self._lock:
                    self._stored += len(rows)
                return

    def _shut(self) -> None:
        try:
            self._segment.close()
        except sqlite3.Error as error:
            logger.warning("closing %s: %s", self.folder, error)
        self._lock_file.release()

    def _tick(self) -> None:
        if self._on_tick is None:
            return
        try:
            self._on_tick()
        except Exception:
            logger.exception("stepscope's housekeeping failed")

    def _disown(self) -> None:
        """In a forked child: the writer thread did not come along, and SQLite must not be touched."""
        self._refusal = FORKED
        self._lock = threading.RLock()
        self._lost = Counter()
        self._logged = set()
        self._stored = self._taken = 0
        self._queue = queue.SimpleQueue()
        # Closing the inherited connection would checkpoint a database that the parent is writing.
        _inherited.append(self._segment)


_inherited: list[SegmentWriter] = []


def _acquire(path: Path, run_folder: Path) -> FileLock:
    lock = FileLock(path)
    # A reader that probes the lock holds it for an instant.
    deadline = time.monotonic() + 1.0
    while not lock.acquire():
        if time.monotonic() > deadline:
            raise RunBusyError(f"another live process writes to {run_folder}; stop it, or choose another folder")
        time.sleep(0.02)
    return lock


def _disown_in_forked_child() -> None:
    for store in list(_stores):
        store._disown()


os.register_at_fork(after_in_child=_disown_in_forked_child)
