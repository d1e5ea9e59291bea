"""What was emitted and is not yet committed: bounded in bytes, and counted exactly."""

from __future__ import annotations

import logging
import queue
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from tracker_adapters.artifacts import Artifact
from tracker_adapters.recording import Block, Deferred, Recordable, ScalarRow, artifact_count

logger = logging.getLogger(__name__)

SCALAR_BYTES = 256
"""What a queued scalar takes in memory, its share of the queue included."""
MAX_ROWS = 10_000
COMMIT_INTERVAL_S = 0.05
"""Half of the 100 ms in which an artifact must be committed; the commit itself has the rest."""
FULL_QUEUE_WAIT_S = 0.05
CLOSED = "emitted_after_close"
FORKED = "emitted_in_forked_process"


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What became of the artifacts emitted so far: emitted = stored + queued + the sum of lost."""

    emitted: int
    stored: int
    queued: int
    lost: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sized:
    """An item on its way to the store, what it takes in memory, and how many artifacts it stands for."""

    item: Artifact | Deferred | Block
    nbytes: int
    count: int


class Barrier:
    """A mark in the queue that tells when everything before it is dealt with."""

    def __init__(self, *, stop: bool = False) -> None:
        self.stop = stop
        self.passed = threading.Event()


Item: TypeAlias = ScalarRow | Sized | Barrier


class EmitQueue:
    """Takes items from any thread and hands them to one, which settles each as stored or lost.

    One lock holds the counts and the end of the queue together: an item is either before the stop barrier or lost.
    """

    def __init__(self, max_bytes: int, stored: int) -> None:
        """``stored`` is how many artifacts the store holds already."""
        self._max_bytes = max_bytes
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        # Re-entrant: an object whose __del__ emits may be collected while this thread holds it.
        self._lock = threading.RLock()
        self._hurry = threading.Event()
        self._room = threading.Event()
        self._held_bytes = 0
        self._queued = 0
        self._stored = stored
        self._lost: Counter[str] = Counter()
        self._logged: set[str] = set()
        self.refusal: str | None = None
        """Why nothing more is taken; None while the queue is open."""

    def put(self, item: Recordable, nbytes: int) -> None:
        """Takes an item; a full queue makes it wait for at most 50 ms, then the item is lost, a block as a whole."""
        count = 1
        if isinstance(item, tuple):
            entry: ScalarRow | Sized = item
            nbytes = SCALAR_BYTES
        else:
            count = artifact_count(item)
            entry = Sized(item, nbytes, count)
        if not self._has_room(nbytes):
            self._wait_for_room(nbytes)
        with self._lock:
            reason = self.refusal
            if reason is None:
                if self._has_room(nbytes):
                    self._held_bytes += nbytes
                    self._queued += count
                    self._items.put(entry)
                    return
                reason = "queue_full"
        self.lose(reason, count=count)

    def put_barrier(self, *, stop: bool = False) -> Barrier | None:
        """Puts a barrier at the end; None when the queue is closed. ``stop`` closes it."""
        barrier = Barrier(stop=stop)
        with self._lock:
            if self.refusal is not None:
                return None
            if stop:
                self.refusal = CLOSED
            self._items.put(barrier)
        self._hurry.set()
        return barrier

    def take(self, timeout: float) -> list[Item]:
        """Returns what has gathered 50 ms after the first item came; nothing when none came in ``timeout`` seconds."""
        try:
            items = [self._items.get(timeout=timeout)]
        except queue.Empty:
            return []
        # Sleeping once a batch, instead of waking for each artifact, leaves the interpreter to the training loop.
        self._hurry.wait(COMMIT_INTERVAL_S)
        self._hurry.clear()
        rows = 0
        while (rows := rows + _rows(items[-1])) < MAX_ROWS:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                return items
        self._hurry.set()
        return items

    def settle(self, *, stored: int = 0, lost: int = 0, reason: str = "", nbytes: int = 0) -> None:
        """Counts artifacts that were taken as stored or lost, and frees ``nbytes`` of memory."""
        with self._lock:
            self._queued -= stored + lost
            self._stored += stored
            if lost:
                self._lost[reason] += lost
            self._held_bytes -= nbytes
        self._room.set()

    def lose(self, reason: str, detail: str = "", *, count: int = 1) -> None:
        """Counts artifacts that were never taken."""
        with self._lock:
            self._lost[reason] += count
        self.warn_once(reason, detail)

    def warn_once(self, reason: str, detail: str = "") -> None:
        """Says once why artifacts are lost."""
        with self._lock:
            if reason in self._logged:
                return
            self._logged.add(reason)
        if reason == FORKED:
            warnings.warn(
                "this forked process writes nothing to its parent's run; what it emits is counted and dropped",
                RuntimeWarning,
                stacklevel=5,
            )
        else:
            logger.warning("stepscope lost an artifact: %s %s; further ones are only counted", reason, detail)

    def counts(self) -> StoreCounts:
        """Returns the counts of one moment."""
        with self._lock:
            emitted = self._stored + self._queued + sum(self._lost.values())
            return StoreCounts(emitted, self._stored, self._queued, dict(self._lost))

    def disown(self) -> None:
        """Starts from nothing in a forked child, which takes nothing; its parent's thread did not come along."""
        self.refusal = FORKED
        self._lock = threading.RLock()
        self._items = queue.SimpleQueue()
        self._held_bytes = self._queued = self._stored = 0
        self._lost = Counter()
        self._logged = set()

    def _wait_for_room(self, nbytes: int) -> None:
        deadline = time.monotonic() + FULL_QUEUE_WAIT_S
        while self.refusal is None and (left := deadline - time.monotonic()) > 0:
            self._room.clear()
            self._hurry.set()
            if self._has_room(nbytes):
                return
            self._room.wait(left)

    def _has_room(self, nbytes: int) -> bool:
        # One item that is larger than the whole queue goes through alone.
        return self._held_bytes + nbytes <= self._max_bytes or not self._held_bytes


def _rows(item: Item) -> int:
    return item.count if isinstance(item, Sized) else 1
