"""While something is built, such as a large picture, everything else is committed; each name keeps its order."""

import threading

import numpy as np
import pytest
from tracker_adapters.artifacts import PageEntry, Scalar, Text
from tracker_adapters.emitter import Emitter
from tracker_adapters.recording import Deferred
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.writing.run_store import RunStore
from waiting import until


class Slow:
    """Is built in parts that go on for as long as the gate is closed."""

    def __init__(self, name, step):
        self.gate = threading.Event()
        self.deferred = Deferred("text", name, 100, self._built, self._parts)
        self._name, self._step = name, step

    def _built(self):
        return Text(name=self._name, text=str(self._step), step=self._step)

    def _parts(self):
        while not self.gate.is_set():
            yield False
        return self._built()


@pytest.fixture
def store(run_folder):
    store = RunStore(run_folder)
    yield store
    store.close()


def test_what_came_later_is_committed_meanwhile(store, run_folder):
    slow = Slow("slow", 0)
    store.put(slow.deferred, 100)
    for step in range(5):
        stored = store.last_seq
        store.put(("loss", step, 1, 0.5), 0)
        until(lambda stored=stored: store.last_seq == stored + 1)
    assert not store.flush(0.1)
    slow.gate.set()
    assert store.flush(60)
    with RunRecord(run_folder) as record:
        assert record.scalars("loss").steps.tolist() == [*range(5)]
        assert [text.step for text in record.texts("slow")] == [0]
    assert store.counts().queued == 0


def test_a_name_keeps_its_order_and_a_barrier_waits(store, run_folder):
    first, second = Slow("notes", 0), Slow("others", 0)
    store.put(first.deferred, 100)
    store.put(Text(name="notes", text="1", step=1), 10)
    store.put(second.deferred, 100)
    store.put(Scalar(name="loss", value=1.0, step=0), 10)
    until(lambda: store.last_seq == 1)
    second.gate.set()
    assert not store.flush(0.1)
    first.gate.set()
    assert store.flush(60)
    with RunRecord(run_folder) as record:
        assert [text.text for text in record.texts("notes")] == ["0", "1"]
        segment = record._readers[0].segments()[0]
        order = segment.connection.execute("SELECT seq, series FROM artifact ORDER BY seq").fetchall()
        names = segment.series()
    assert [names[number][1] for _, number in order] == ["notes", "notes", "others"]


def test_what_fails_while_it_is_built_is_counted_and_frees_its_memory(store):
    def parts():
        yield True
        raise ValueError("no such pixel")

    store.put(Deferred("image", "x", 1000, lambda: Text(name="x", text="", step=0), parts), 1000)
    store.put(("loss", 0, 1, 0.5), 0)
    assert store.flush(60)
    assert store.counts().lost == {"not_encoded": 1}
    assert store._queue._put_bytes == store._queue._freed_bytes


def test_closing_waits_for_what_is_built(run_folder):
    store, slow = RunStore(run_folder), Slow("slow", 0)
    store.put(slow.deferred, 100)
    assert not store.close(0.1)
    slow.gate.set()
    assert store.close(60)
    assert store.counts().stored == 1


def test_a_picture_that_is_larger_than_the_queue_drops_nothing(run_folder):
    store = RunStore(run_folder, queue_bytes=200_000)
    emitter = Emitter(store)
    pixels = np.random.default_rng(0).integers(0, 255, (800, 800, 3), dtype=np.uint8)
    emitter.image("large", pixels, layout="HWC", step=0)
    for step in range(100):
        emitter.scalar("loss", 1.0, step=step)
    assert store.close(60)
    assert (store.counts().stored, store.counts().lost) == (101, {})
    with RunRecord(run_folder) as record:
        assert (record.images("large")[0].width, len(record.scalars("loss"))) == (800, 100)


def test_the_queue_counts_what_its_items_take(run_folder, monkeypatch):
    counted: list[int] = []
    monkeypatch.setattr(RunStore, "put", lambda _, item, nbytes: counted.append(nbytes))
    store = RunStore(run_folder)
    emitter, wide = Emitter(store), "\N{GRINNING FACE}" * 1000
    (run_folder / "page_0.pkl").write_bytes(b"x")
    emitter.text("t", wide, step=0)
    emitter.alert("a", wide, step=0)
    emitter.table("t", ["c"], [[wide]], step=0)
    emitter.page(run_folder / "page_0.pkl", contents=[PageEntry(datapoint=0, debugger="d", summary=wide)], step=0)
    assert min(counted) > 4000
    store.close()


def test_a_queued_scalar_counts_its_name(run_folder):
    store = RunStore(run_folder)
    before = store._queue._put_bytes
    store.put(("n" * 1000, 0, 1, 0.5), 0)
    assert store._queue._put_bytes - before > 1000
    assert store.close(60)
    assert store._queue._put_bytes == store._queue._freed_bytes
