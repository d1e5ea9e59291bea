"""The run store when something fails behind an emit: nothing is lost without count, nothing is stored twice."""

import sqlite3
import threading
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tracker_adapters.artifacts import Artifact, Text
from tracker_adapters.emitter import Deferred, Emitter
from tracker_adapters.errors import RunError
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.writing import run_store as run_store_module
from tracker_adapters.store.writing.run_store import RunStore
from waiting import until


@pytest.fixture
def quick_retries(monkeypatch):
    monkeypatch.setattr(run_store_module, "RETRY_INTERVAL_S", 0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Artifact):
    """An artifact that the store has no row for."""

    kind: ClassVar[str] = "unknown"


def test_a_value_that_cannot_be_built_costs_only_itself(run_folder):
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("before", 1, step=0)
    store.put(Deferred("image", "bad", 10, lambda: 1 / 0), 10)  # type: ignore[arg-type, return-value]
    emitter.scalar("after", 2, step=0)
    store.close()
    assert store.counts().lost == {"not_encoded": 1}
    assert [info.name for info in RunRecord(run_folder).names()] == ["after", "before"]


def test_a_database_that_fails_for_a_while_loses_nothing(run_folder, monkeypatch, caplog):
    monkeypatch.setattr(run_store_module, "RETRY_INTERVAL_S", 0.02)
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("loss", 0, step=0)
    assert store.flush(60)
    segment = next(store.folder.glob("segment_*.db"))
    blocker = sqlite3.connect(segment, isolation_level=None)
    store._segment._connection.execute("PRAGMA busy_timeout=1")
    blocker.execute("BEGIN IMMEDIATE")
    emitter.scalar("loss", 1, step=1)
    assert not store.flush(0.5)
    assert store.counts().lost == {}
    blocker.execute("ROLLBACK")
    assert store.flush(60)
    blocker.close()
    store.close()
    assert RunRecord(run_folder).scalars("loss").values.tolist() == [0, 1]
    assert sum("retrying" in record.message for record in caplog.records) == 1


def test_a_segment_left_empty_by_a_crash_is_replaced(run_folder):
    store = RunStore(run_folder)
    Emitter(store).scalar("loss", 1, step=0)
    store.close()
    (store.folder / "segment_000001.db").touch()
    store = RunStore(run_folder, resume=True)
    Emitter(store).scalar("loss", 2, step=1)
    store.close()
    assert RunRecord(run_folder).scalars("loss").values.tolist() == [1, 2]


def test_an_artifact_that_the_store_cannot_hold_costs_only_itself(run_folder):
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("loss", 0, step=0)
    store.put(Unknown(name="x", step=0), 10)
    emitter.scalar("loss", 1, step=1)
    assert store.flush(60)
    emitter.scalar("loss", 2, step=2)
    assert store.close(60)
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (4, 3, {"not_encoded": 1})
    assert RunRecord(run_folder).scalars("loss").values.tolist() == [0, 1, 2]


def test_a_slow_artifact_does_not_delay_the_commit_of_earlier_ones(run_folder):
    store, reader, release = RunStore(run_folder), StoreReader(run_folder), threading.Event()

    def build():
        release.wait()
        return Text(name="slow", text="", step=0)

    Emitter(store).scalar("loss", 0, step=0)
    store.put(Deferred("text", "slow", 10, build), 10)
    until(lambda: reader.last_seq() > 0)
    release.set()
    assert store.close(60)
    reader.close()
    assert store.counts().stored == 2


@pytest.mark.usefixtures("quick_retries")
def test_a_segment_that_cannot_be_opened_stores_nothing_twice(run_folder, caplog):
    store = RunStore(run_folder, segment_bytes=60_000)
    emitter = Emitter(store)
    obstacle = store.folder / "segment_000001.db"
    obstacle.mkdir()
    for step in range(3000):
        emitter.scalar("loss", step, step=step)
    # A busy machine commits them in parts, of which the first one may fill the segment.
    until(lambda: "retrying" in caplog.text or store.counts().queued == 0)
    emitter.scalar("loss", 3000, step=3000)
    until(lambda: "retrying" in caplog.text)
    obstacle.rmdir()
    assert store.flush(60)
    assert store.close(60)
    assert RunRecord(run_folder).scalars("loss").values.tolist() == list(range(3001))
    assert store.counts().lost == {}


@pytest.mark.usefixtures("quick_retries")
def test_a_deleted_store_is_not_counted_as_stored_and_a_barrier_does_not_wait_for_it(run_folder):
    store = RunStore(run_folder)
    Emitter(store).scalar("loss", 0, step=0)
    assert store.flush()
    for file in store.folder.glob("segment_*"):
        file.unlink()
    Emitter(store).scalar("loss", 1, step=1)
    assert not store.flush()
    assert store.close(60)
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (2, 1, {"store_not_writable": 1})


def test_a_damaged_store_is_refused_and_stays_free(run_folder):
    RunStore(run_folder).close()
    segment = run_folder / "store" / "rank_00000" / "segment_000000.db"
    intact = segment.read_bytes()
    segment.write_bytes(b"no database " * 1000)
    with pytest.raises(RunError, match=r"cannot open the run store: .*not a database"):
        RunStore(run_folder, resume=True)
    segment.write_bytes(intact)
    RunStore(run_folder, resume=True).close()


def test_early_segments_may_be_removed(run_folder, three_segments):
    three_segments[0].unlink()
    store = RunStore(run_folder, resume=True, segment_bytes=60_000)
    for step in range(6000, 12000):
        Emitter(store).scalar("loss", step, step=step)
        if step % 2000 == 1999:
            assert store.flush(60)
    assert store.close(60)
    assert store.counts().lost == {}
    assert RunRecord(run_folder).scalars("loss").steps.tolist() == list(range(2000, 12000))


def test_a_flush_that_meets_a_close_returns(run_folder):
    store = RunStore(run_folder)
    release, results = threading.Event(), []

    def build():
        release.wait()
        return Text(name="slow", text="", step=0)

    store.put(Deferred("text", "slow", 10, build), 10)
    assert not store.close(0)
    flushing = threading.Thread(target=lambda: results.append(store.flush()))
    flushing.start()
    assert not store.flush(0)
    release.set()
    flushing.join(60)
    assert results == [True]


def test_what_threads_emit_during_a_close_is_stored_or_counted(run_folder):
    store = RunStore(run_folder)
    emitter, closed, emitted = Emitter(store), threading.Event(), [0] * 4

    def emit(thread):
        while not closed.is_set():
            emitter.scalar("loss", 0, step=0)
            emitted[thread] += 1

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert store.close(60)
    finally:
        closed.set()
        for thread in threads:
            thread.join()
    counts = store.counts()
    assert (counts.emitted, counts.queued) == (sum(emitted), 0)
    assert counts.stored + counts.lost.get("emitted_after_close", 0) == sum(emitted)
