"""The queue before the store: bounded, counted exactly, and never a trap for what interrupts it."""

import threading
import time
import warnings
from types import SimpleNamespace

import pytest
from tracker_adapters.artifacts import Text
from tracker_adapters.store.writing import emit_queue
from tracker_adapters.store.writing.emit_queue import SCALAR_BYTES, EmitQueue

ROW = ("loss", 0, 0, 1.0)


@pytest.fixture
def never_stalled(monkeypatch):
    """However long the machine stops: the writer counts as one that gets on."""
    monkeypatch.setattr(emit_queue, "STALL_S", 3600.0)


def filled(rows):
    queue = EmitQueue(rows * SCALAR_BYTES, stored=0)
    for _ in range(rows):
        queue.put(ROW, 0)
    return queue


@pytest.mark.usefixtures("never_stalled")
def test_a_writer_that_makes_room_is_waited_for(monkeypatch):
    monkeypatch.setattr(emit_queue, "FULL_QUEUE_WAIT_S", 60.0)
    queue = filled(3)

    def make_room():
        items = queue.take(60)
        queue.settle(stored=len(items), nbytes=len(items) * SCALAR_BYTES)

    writer = threading.Thread(target=make_room)
    writer.start()
    queue.put(ROW, 0)
    writer.join(60)
    counts = queue.counts()
    assert (counts.emitted, counts.stored, counts.queued, counts.lost) == (4, 3, 1, {})


@pytest.mark.usefixtures("never_stalled")
def test_a_writer_that_got_nowhere_for_long_is_not_waited_for(monkeypatch):
    """A dead disk costs the training two seconds in all, not 50 ms an artifact."""
    queue = filled(3)
    start = time.monotonic()
    queue.put(ROW, 0)
    assert time.monotonic() - start >= emit_queue.FULL_QUEUE_WAIT_S
    monkeypatch.setattr(emit_queue, "STALL_S", 0.0)
    start = time.monotonic()
    for _ in range(1000):
        queue.put(ROW, 0)
    assert time.monotonic() - start < 1000 * emit_queue.FULL_QUEUE_WAIT_S / 4
    assert queue.counts().lost == {"queue_full": 1001}


def test_an_emit_that_interrupts_an_emit_is_counted_too():
    """A ``__del__`` and a signal handler run in the thread that holds the lock."""
    queue = EmitQueue(10_000, stored=0)
    with queue._lock:
        queue.put(ROW, 0)
        barrier = queue.put_barrier()
    assert barrier is not None
    assert (queue.counts().emitted, len(queue.take(1))) == (1, 2)


def test_a_forked_child_is_told_even_where_warnings_are_errors():
    queue = filled(1)
    queue.disown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        queue.put(ROW, 0)
        queue.put(Text(name="t", text="", step=0), 10)
    assert queue.counts().lost == {emit_queue.FORKED: 2}
    assert queue.counts().emitted == 2


def test_a_thread_that_emits_without_pause_lets_the_writer_have_the_interpreter(monkeypatch):
    """From half full on; before, no emit waits for anything."""
    pauses: list[float] = []
    monkeypatch.setattr(emit_queue, "time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 0.0))
    queue = EmitQueue(20_000 * SCALAR_BYTES, stored=0)
    for _ in range(10_000):
        queue.put(ROW, 0)
    assert pauses == []
    for _ in range(10_000):
        queue.put(ROW, 0)
    assert 38 <= len(pauses) <= 40
    assert queue.counts().queued == 20_000
