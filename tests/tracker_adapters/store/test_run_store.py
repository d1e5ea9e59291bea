"""The run store: what is promised about numbering, committing, losing, locking and forking."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tracker_adapters.artifacts import RunInfo, Text
from tracker_adapters.emitter import Deferred, Emitter
from tracker_adapters.errors import RunBusyError, RunExistsError
from tracker_adapters.store import run_store as run_store_module
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.record import RunRecord
from tracker_adapters.store.run_store import RunStore
from tracker_adapters.store.tail import StoreReader
from tracker_adapters.testing import MemorySink
from tracker_adapters.testing.contract import one_of_each


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    Manifest(RunInfo(id="id", name="run")).save(folder)
    return folder


def test_everything_emitted_comes_back_equal_and_in_order(run_folder: Path, tmp_path: Path) -> None:
    artifacts = one_of_each(tmp_path)
    store = RunStore(run_folder)
    for artifact in artifacts:
        adopted = store.adopt(artifact) if artifact.kind in {"page", "file"} else artifact
        assert adopted is not None
        store.put(adopted, 0)
    assert store.close()
    sink = MemorySink()
    batch = StoreReader(run_folder).read(0)
    assert batch is not None
    assert (batch.first_seq, batch.last_seq, batch.attempt, len(batch)) == (1, len(artifacts), 1, len(artifacts))
    sink.write(batch)
    for before, after in zip(artifacts, sink.artifacts, strict=True):
        if before.kind in {"page", "file"}:
            assert after.path.read_bytes() == before.path.read_bytes()
            after = after.stored_at(before.path)
        assert after == before


def test_an_artifact_is_committed_within_100_ms(run_folder: Path) -> None:
    store, reader = RunStore(run_folder), StoreReader(run_folder)
    emitter = Emitter(store)
    delays = []
    for step in range(10):
        start = time.monotonic()
        emitter.scalar("loss", 1.0, step=step)
        while reader.last_seq() <= step:
            assert time.monotonic() - start < 5
            time.sleep(0.002)
        delays.append(time.monotonic() - start)
    store.close()
    # The median leaves room for a machine that stops for a moment.
    assert sorted(delays)[5] < 0.1


def test_numbers_are_consecutive_across_threads_kinds_and_segments(run_folder: Path) -> None:
    store = RunStore(run_folder, segment_bytes=200_000)
    emitter = Emitter(store)

    def emit(thread: int) -> None:
        for step in range(2000):
            emitter.scalar(f"loss/{thread}", step, step=step)
            if step % 100 == 0:
                emitter.text(f"note/{thread}", "x" * 100, step=step)

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.close()
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


def test_a_full_queue_waits_at_most_50_ms_then_drops_and_counts(run_folder: Path) -> None:
    store = RunStore(run_folder, queue_bytes=2000)
    blocked, release = threading.Event(), threading.Event()

    def block() -> Text:
        blocked.set()
        release.wait()
        return Text(name="slow", text="", step=0)

    store.put(Deferred("text", "slow", 1500, block), 1500)
    assert blocked.wait(5)
    start = time.monotonic()
    store.put(Text(name="big", text="", step=0), 1000)
    waited = time.monotonic() - start
    assert 0.03 < waited < 0.5
    assert store.counts().lost == {"queue_full": 1}
    release.set()
    assert store.flush(5)
    store.put(Text(name="big", text="", step=0), 1000)
    assert store.close()
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (3, 2, {"queue_full": 1})


def test_a_value_that_cannot_be_built_costs_only_itself(run_folder: Path) -> None:
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("before", 1, step=0)
    store.put(Deferred("image", "bad", 10, lambda: 1 / 0), 10)  # type: ignore[arg-type, return-value]
    emitter.scalar("after", 2, step=0)
    store.close()
    assert store.counts().lost == {"not_encoded": 1}
    assert [info.name for info in RunRecord(run_folder).names()] == ["after", "before"]


def test_a_database_that_fails_for_a_while_loses_nothing(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_store_module, "RETRY_INTERVAL_S", 0.02)
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("loss", 0, step=0)
    assert store.flush(5)
    segment = next(store.folder.glob("segment_*.db"))
    blocker = sqlite3.connect(segment, isolation_level=None)
    store._segment._connection.execute("PRAGMA busy_timeout=1")
    blocker.execute("BEGIN IMMEDIATE")
    emitter.scalar("loss", 1, step=1)
    assert not store.flush(0.5)
    assert store.counts().lost == {}
    blocker.execute("ROLLBACK")
    assert store.flush(5)
    blocker.close()
    store.close()
    assert RunRecord(run_folder).scalars("loss").values.tolist() == [0, 1]
    assert sum("keeps trying" in record.message for record in caplog.records) == 1


def test_emitting_after_close_is_counted(run_folder: Path) -> None:
    store = RunStore(run_folder)
    emitter = Emitter(store)
    emitter.scalar("loss", 1, step=0)
    store.close()
    store.close()
    emitter.scalar("loss", 2, step=1)
    counts = store.counts()
    assert (counts.emitted, counts.stored, counts.lost) == (2, 1, {"emitted_after_close": 1})


def test_a_second_opening_needs_resume_and_becomes_an_attempt(run_folder: Path) -> None:
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


def test_a_live_writer_keeps_others_out(run_folder: Path) -> None:
    store = RunStore(run_folder)
    try:
        with pytest.raises(RunBusyError, match=str(run_folder)):
            RunStore(run_folder, resume=True)
    finally:
        store.close()


def test_a_segment_left_empty_by_a_crash_is_replaced(run_folder: Path) -> None:
    store = RunStore(run_folder)
    Emitter(store).scalar("loss", 1, step=0)
    store.close()
    (store.folder / "segment_000001.db").touch()
    store = RunStore(run_folder, resume=True)
    Emitter(store).scalar("loss", 2, step=1)
    store.close()
    assert RunRecord(run_folder).scalars("loss").values.tolist() == [1, 2]


def test_a_forked_child_counts_warns_once_and_writes_nothing(run_folder: Path) -> None:
    script = f"""
import os, sys, warnings
from pathlib import Path
from tracker_adapters.emitter import Emitter
from tracker_adapters.store.run_store import RunStore
store = RunStore(Path({str(run_folder)!r}))
emitter = Emitter(store)
emitter.scalar("parent", 1, step=0)
pid = os.fork()
if pid == 0:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(100):
            emitter.scalar("child", 1, step=step)
        store.close()
    counts = store.counts()
    os._exit(0 if (counts.emitted, counts.stored, counts.lost, len(caught)) == (
        100, 0, {{"emitted_in_forked_process": 100}}, 1) else 1)
_, status = os.waitpid(pid, 0)
emitter.scalar("parent", 2, step=1)
assert store.close(5)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    record = RunRecord(run_folder)
    assert [info.name for info in record.names()] == ["parent"]
    assert record.scalars("parent").values.tolist() == [1, 2]


def test_a_surviving_forked_child_does_not_keep_the_run_locked(run_folder: Path) -> None:
    store = RunStore(run_folder)
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_write)
        os.read(gate_read, 1)
        os._exit(0)
    os.close(gate_read)
    try:
        store.close()
        RunStore(run_folder, resume=True).close()
    finally:
        os.close(gate_write)
        os.waitpid(pid, 0)


def test_non_finite_values_and_large_steps_survive(run_folder: Path) -> None:
    store = RunStore(run_folder)
    emitter = Emitter(store)
    values = [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    for step, value in enumerate(values):
        emitter.scalar("v", value, step=2**63 - 10 + step)
    store.close()
    series = RunRecord(run_folder).scalars("v")
    np.testing.assert_array_equal(series.values, values)
    assert series.steps.tolist() == [2**63 - 10 + step for step in range(6)]


def test_rollups_give_range_and_non_finite_counts(run_folder: Path) -> None:
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


def test_a_closed_segment_can_be_copied_alone_even_with_a_reader_at_it(run_folder: Path, tmp_path: Path) -> None:
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
