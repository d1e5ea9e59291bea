"""The run store: what is promised about numbering, committing, losing, locking and forking."""

import itertools
import math
import sqlite3
import statistics
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from tracker_adapters.artifacts import Text
from tracker_adapters.emitter import Deferred, Emitter
from tracker_adapters.errors import RunBusyError, RunExistsError
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.writing import emit_queue
from tracker_adapters.store.writing.run_store import RunStore
from tracker_adapters.testing import MemorySink
from tracker_adapters.testing.contract import one_of_each
from waiting import in_threads, until


def test_everything_emitted_comes_back_equal_and_in_order(run_folder, tmp_path):
    artifacts = one_of_each(tmp_path)
    store = RunStore(run_folder)
    for artifact in artifacts:
        adopted = store.adopt(artifact) if artifact.kind in {"page", "file"} else artifact
        assert adopted is not None
        store.put(adopted, 0)
    assert store.close(60)
    sink = MemorySink()
    batch = StoreReader(run_folder).read(0)
    assert batch is not None
    assert (batch.first_seq, batch.last_seq, batch.attempt, len(batch)) == (1, len(artifacts), 1, len(artifacts))
    sink.write(batch)
    for before, after in zip(artifacts, sink.artifacts, strict=True):
        if before.kind in {"page", "file"}:
            assert after.path.read_bytes() == before.path.read_bytes()
            after = replace(after, path=before.path)
        assert after == before


def test_an_artifact_is_committed_within_100_ms(run_folder):
    store, reader = RunStore(run_folder), StoreReader(run_folder)
    emitter, steps = Emitter(store), itertools.count()

    def delay():
        step = next(steps)
        emitter.scalar("loss", 1.0, step=step)
        return until(lambda: reader.last_seq() > step, every_s=0.002)

    # What else runs on the machine only adds to a delay: the median leaves room for some, and another round for more.
    until(lambda: statistics.median(delay() for _ in range(10)) < 0.1, 120)
    assert store.close(60)


def test_numbers_are_consecutive_across_threads_kinds_and_segments(run_folder):
    store = RunStore(run_folder, segment_bytes=200_000)
    emitter = Emitter(store)

    def emit(thread):
        for step in range(2000):
            emitter.scalar(f"loss/{thread}", step, step=step)
            if step % 100 == 0:
                emitter.text(f"note/{thread}", "x" * 100, step=step)

    in_threads(emit, range(8))
    assert store.close(60)
    assert len(list(store.folder.glob("segment_*.db"))) > 1
    reader, after, seqs = StoreReader(run_folder), 0, []
    while batch := reader.read(after, max_rows=777):
        assert batch.first_seq == after + 1
        seqs += [*batch.scalars.seqs.tolist(), *batch.texts.seqs]
        after = batch.last_seq
    assert sorted(seqs) == list(range(1, 8 * 2020 + 1))
    record = RunRecord(run_folder)
    for number in range(8):
        series = record.scalars(f"loss/{number}")
        assert series.values.tolist() == list(range(2000))
        assert series.steps.tolist() == list(range(2000))
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.queued, counts.lost) == (8 * 2020, 8 * 2020, 0, {})


def test_a_full_queue_waits_at_most_50_ms_then_drops_and_counts(run_folder, monkeypatch):
    monkeypatch.setattr(emit_queue, "STALL_S", 3600.0)  # after which nobody waits any more
    store = RunStore(run_folder, queue_bytes=2000)
    blocked, release = threading.Event(), threading.Event()

    def block():
        blocked.set()
        release.wait()
        return Text(name="slow", text="", step=0)

    store.put(Deferred("text", "slow", 1500, block), 1500)
    assert blocked.wait(60)
    waited = []
    for _ in range(4):  # the machine may hold up some of them for longer
        start = time.monotonic()
        store.put(Text(name="big", text="", step=0), 1000)
        waited.append(time.monotonic() - start)
    assert 0.03 < min(waited) < 0.5
    assert store.counts().lost == {"queue_full": 4}
    release.set()
    assert store.flush(60)
    store.put(Text(name="big", text="", step=0), 1000)
    assert store.close(60)
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (6, 2, {"queue_full": 4})


def test_one_item_larger_than_the_queue_goes_through_alone(run_folder):
    store = RunStore(run_folder, queue_bytes=1000)
    store.put(Text(name="large", text="x" * 5000, step=0), 5000)
    assert store.flush(60)
    assert store.close(60)
    assert (store.counts().stored, store.counts().lost) == (1, {})


def test_emitting_after_close_is_counted(run_folder):
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("loss", 1, step=0)
    store.close()
    store.close()
    emitter.scalar("loss", 2, step=1)
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (2, 1, {"emitted_after_close": 1})


def test_a_second_opening_needs_resume_and_becomes_an_attempt(run_folder):
    store = RunStore(run_folder)
    emitter = Emitter(store)
    for step in range(5):
        emitter.scalar("loss", step, step=step)
    store.close()
    with pytest.raises(RunExistsError, match="resume=True"):
        RunStore(run_folder)
    store = RunStore(run_folder, resume=True)
    assert store.attempt == 2
    for step in (3, 4, 5):
        Emitter(store).scalar("loss", 10 + step, step=step)
    store.close()
    series = RunRecord(run_folder).scalars("loss")
    assert series.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert series.values.tolist() == [0, 1, 2, 13, 14, 15]
    first = StoreReader(run_folder).read(0)
    second = StoreReader(run_folder).read(5)
    assert first is not None
    assert second is not None
    assert (first.attempt, first.last_seq, second.attempt, second.last_seq) == (1, 5, 2, 8)


def test_a_live_writer_keeps_others_out(run_folder):
    store = RunStore(run_folder)
    try:
        with pytest.raises(RunBusyError, match=str(run_folder)):
            RunStore(run_folder, resume=True)
    finally:
        store.close()


def test_non_finite_values_and_large_steps_survive(run_folder):
    store = RunStore(run_folder)
    emitter = Emitter(store)
    values = [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    for step, value in enumerate(values):
        emitter.scalar("v", value, step=2**63 - 10 + step)
    store.close()
    series = RunRecord(run_folder).scalars("v")
    np.testing.assert_array_equal(series.values, values)
    assert series.steps.tolist() == [2**63 - 10 + step for step in range(6)]


def test_rollups_give_range_and_non_finite_counts(run_folder):
    store = RunStore(run_folder, segment_bytes=100_000)
    emitter = Emitter(store)
    for step in range(6000):
        emitter.scalar("v", math.inf if step % 1000 == 0 else math.nan if step == 7 else float(step), step=step)
    emitter.scalar("nan_only", math.nan, step=0)
    store.close()
    record = RunRecord(run_folder)
    ranges = record.scalar_ranges("v")
    assert len(record.ranks) == 1
    assert ranges.first_steps.tolist() == [256 * i for i in range(24)]
    assert int(ranges.counts.sum()) == 6000
    assert int(ranges.non_finite.sum()) == 7
    assert ranges.min[1] == 256
    assert ranges.max[0] == 255
    assert ranges.max[-1] == 5999
    assert math.isnan(record.scalar_ranges("nan_only").min[0])


def test_a_closed_segment_can_be_copied_alone_even_with_a_reader_at_it(run_folder, tmp_path):
    store = RunStore(run_folder)
    for step in range(1000):
        Emitter(store).scalar("loss", step, step=step)
    store.flush()
    reader = StoreReader(run_folder)
    assert reader.read(0) is not None
    store.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes((store.folder / "segment_000000.db").read_bytes())
    assert sqlite3.connect(copy).execute("SELECT count(*) FROM scalar").fetchone() == (1000,)
    reader.close()


def test_a_reader_holds_one_segment_open_however_many_it_passes(run_folder):
    store, reader, after = RunStore(run_folder, segment_bytes=60_000), StoreReader(run_folder), 0
    for step in range(8000):
        Emitter(store).scalar("loss", step, step=step)
        if step % 2000 == 1999:
            assert store.flush(60)
            while batch := reader.read(after):
                after = batch.last_seq
    store.close()
    assert after == 8000
    segments = sorted(path.name for path in store.folder.glob("segment_*.db"))
    assert len(segments) >= 4
    opened = {Path(file.path) for file in psutil.Process().open_files()}
    assert {path.name for path in opened if path.parent == store.folder and path.suffix == ".db"} == {segments[-1]}
    reader.close()
