"""The queue between emitters and the writer thread: bounded in bytes, and counted exactly."""

import contextlib
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
from tracker_adapters.store.writing.gate import Gate

logger = logging.getLogger(__name__)

SCALAR_BYTES = 256
"""What a queued scalar takes in memory with a short name, its share of the queue included."""
SHORT_NAME = 32
MAX_ROWS = 10_000
COMMIT_INTERVAL_S = 0.05
"""Half of the 100 ms in which an artifact must be committed; the commit itself has the rest."""
FULL_QUEUE_WAIT_S = 0.05
ROOM_POLL_S = 0.001
YIELD_EVERY = 256
"""From half full on, one emit in so many sleeps a millisecond: a thread that emits without pause keeps the interpreter
for 5 ms at a time, which the writer thread would wait for after each of its statements."""
STALL_S = 2.0
"""A writer thread that has got nowhere for this long, as on a full disk, is not waited for: only the memory helps."""
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


@dataclass(frozen=True, slots=True)
class _Settled:
    """What became of what was taken: ``taken`` counts all of it, ``stored`` also what the store held before."""

    stored: int
    lost: dict[str, int]
    taken: int


class Barrier:
    """A mark in the queue that tells when everything before it is dealt with."""

    def __init__(self, *, stop: bool = False) -> None:
        self.stop = stop
        self.passed = Gate()


Item: TypeAlias = ScalarRow | Sized | Barrier


class EmitQueue:
    """Takes items from any thread and hands them to one, which settles each as stored or lost.

    One lock holds the counts of what is put and the end of the queue together: an item is either before the stop
    barrier or lost. Every method may also be called by a signal handler or a ``__del__`` that interrupts another one:
    the lock is re-entrant, ``SimpleQueue`` is made for it, and the thread that takes and settles needs no lock, since
    a handler that waits for it would wait for ever when the interrupted call holds one.
    """

    def __init__(self, max_bytes: int, stored: int) -> None:
        """``stored`` is how many artifacts the store holds already."""
        self._max_bytes = max_bytes
        self._half_bytes = max_bytes // 2
        self._progress_at = time.monotonic()
        self.refusal: str | None = None
        """Why nothing more is taken; None while the queue is open."""
        self._start_empty(stored)

    def _start_empty(self, stored: int) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._hurry: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        # Changed by those who put, with the lock.
        self._put = 0
        self._put_bytes = 0
        self._refused: Counter[str] = Counter()
        # Changed by the thread that settles; _settled as a whole.
        self._settled = _Settled(stored, {}, 0)
        self._freed_bytes = 0
        self._logged: dict[str, object] = {}

    def put(self, item: Recordable, nbytes: int) -> None:
        """Takes an item; a full queue makes it wait for at most 50 ms, then the item is lost, a block as a whole."""
        count = 1
        if isinstance(item, tuple):
            entry: ScalarRow | Sized = item
            nbytes = scalar_bytes(item)
        else:
            count = artifact_count(item)
            # One that is larger than half of the queue counts as half, or nothing else would fit until it is stored.
            nbytes = min(nbytes, self._half_bytes + 1)
            entry = Sized(item, nbytes, count)
        if self._put_bytes - self._freed_bytes > self._half_bytes:
            self._make_room(nbytes, count)
        with self._lock:
            held_bytes = self._put_bytes - self._freed_bytes
            # One item that is larger than the whole queue goes through alone.
            if self.refusal is None and (held_bytes + nbytes <= self._max_bytes or not held_bytes):
                # No call stands between these three: whatever interrupts a thread finds all of them done, or none.
                self._put += count
                self._put_bytes += nbytes
                self._items.put(entry)
                return
            reason = self.refusal or "queue_full"
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
        self._hurry.put(None)
        return barrier

    def take(self, timeout: float, gather: float = COMMIT_INTERVAL_S) -> list[Item]:
        """Returns what has gathered ``gather`` seconds after the first item came; nothing when none came in time.

        Args:
            timeout: How long to wait for the first item, in seconds.
            gather: Half of the time in which it must be committed, or 0.
        """
        self._progress_at = time.monotonic()
        try:
            items = [self._items.get(timeout=timeout)]
        except queue.Empty:
            return []
        self._progress_at = time.monotonic()
        # Sleeping once a batch, instead of waking for each artifact, leaves the interpreter to the training loop.
        with contextlib.suppress(queue.Empty):
            self._hurry.get(timeout=gather)
            while True:
                self._hurry.get_nowait()
        rows = 0
        while (rows := rows + _rows(items[-1])) < MAX_ROWS:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                return items
        self._hurry.put(None)
        return items

    def settle(self, *, stored: int = 0, lost: int = 0, reason: str = "", nbytes: int = 0) -> None:
        """Counts artifacts that were taken as stored or lost, and frees ``nbytes`` of memory."""
        old = self._settled
        by_reason = old.lost | {reason: old.lost.get(reason, 0) + lost} if lost else old.lost
        self._settled = _Settled(old.stored + stored, by_reason, old.taken + stored + lost)
        self._freed_bytes += nbytes
        self._progress_at = time.monotonic()

    def lose(self, reason: str, detail: str = "", *, count: int = 1) -> None:
        """Counts artifacts that were never taken."""
        with self._lock:
            self._refused[reason] += count
        self.warn_once(reason, detail)

    def warn_once(self, reason: str, detail: str = "") -> None:
        """Says once why artifacts are lost."""
        me = object()
        if self._logged.setdefault(reason, me) is not me:
            return
        with contextlib.suppress(Exception):  # warnings may be errors, and a log's stream may be broken
            if reason == FORKED:
                warnings.warn(
                    "this forked process writes nothing to its parent's run; what it emits is counted and dropped",
                    RuntimeWarning,
                    stacklevel=5,
                )
            else:
                what = f"{reason} {detail}".rstrip()
                logger.warning("stepscope lost an artifact: %s; further ones are only counted", what)

    def counts(self) -> StoreCounts:
        """Returns the counts of one moment."""
        settled = self._settled  # first: what is settled was put before
        queued = self._put - settled.taken
        lost = dict(Counter(settled.lost) + Counter(dict(self._refused)))
        return StoreCounts(settled.stored + queued + sum(lost.values()), settled.stored, queued, lost)

    def disown(self) -> None:
        """Starts from nothing in a forked child, which takes nothing; its parent's thread did not come along."""
        self.refusal = FORKED
        self._start_empty(0)

    def _make_room(self, nbytes: int, count: int) -> None:
        now = time.monotonic()
        if now - self._progress_at > STALL_S:
            return
        if self._put % YIELD_EVERY < count:
            time.sleep(ROOM_POLL_S)
        while (held_bytes := self._put_bytes - self._freed_bytes) and held_bytes + nbytes > self._max_bytes:
            if time.monotonic() - now > FULL_QUEUE_WAIT_S or self.refusal is not None:
                return
            self._hurry.put(None)
            time.sleep(ROOM_POLL_S)


def scalar_bytes(row: ScalarRow) -> int:
    """Returns what a queued scalar takes in memory."""
    length = len(row[0])
    return SCALAR_BYTES if length <= SHORT_NAME else SCALAR_BYTES + 4 * length


def _rows(item: Item) -> int:
    return item.count if isinstance(item, Sized) else 1
