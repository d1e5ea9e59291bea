"""Blocks of histograms and scalars in the store: each artifact is counted, numbered and read back as if alone."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram, Text
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import RunError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.recording import Deferred
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.writing.run_store import RunStore

NAMES = [f"layers.{number}.weight" for number in range(53)]


def histograms(seed, step):
    draw = np.random.default_rng(seed)
    arrays = [draw.normal(0, 1e-3, 100 * (1 + row % 7)).astype(np.float32) for row in range(len(NAMES))]
    return [Histogram.from_values(n, array, step=step, time_ns=5) for n, array in zip(NAMES, arrays, strict=True)]


def emit(emitter, step):
    """Emits 106 artifacts in two blocks, and returns the histograms."""
    made = histograms(step, step)
    emitter.histograms(NAMES, HistogramColumns.of(made), step=step, time_ns=5)
    emitter.scalars([f"{name}/norm" for name in NAMES], np.arange(53.0) + step, step=step)
    return made


def test_every_histogram_and_scalar_of_a_block_is_read_back_by_its_name(run_folder):
    store = RunStore(run_folder)
    made = [emit(Emitter(store), step) for step in range(30)]
    assert store.close(60)
    record = RunRecord(run_folder)
    for row, name in enumerate(NAMES):
        assert record.histograms(name) == [step[row] for step in made]
        assert record.scalars(f"{name}/norm").values.tolist() == [row + step for step in range(30)]
    assert {(info.kind, info.count, info.last_step) for info in record.names()} == {
        ("histogram", 30, 29), ("scalar", 30, 29),
    }  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 200))
def test_a_batch_may_end_inside_a_block(tmp_path_factory, max_rows):
    folder = tmp_path_factory.mktemp("run")
    store = RunStore(folder)
    emitter = Emitter(store)
    made = []
    for step in range(2):
        emitter.text("note", "between", step=step)
        made += emit(emitter, step)
        emitter.scalar("loss", step, step=step)
    assert store.close(60)
    reader, after, seqs, read = StoreReader(folder), 0, [], []
    while batch := reader.read(after, max_rows=max_rows):
        assert len(batch) == batch.last_seq - after <= max_rows
        seqs += [*batch.scalars.seqs.tolist(), *batch.texts.seqs, *batch.histograms.seqs]
        read += batch.histograms.artifacts
        after = batch.last_seq
    assert sorted(seqs) == list(range(1, 2 * 108 + 1))
    assert read == made


def test_blocks_and_single_artifacts_are_counted_alike(run_folder):
    store = RunStore(run_folder, queue_bytes=400_000)
    emitter, building, release = Emitter(store), threading.Event(), threading.Event()

    def build():
        building.set()
        release.wait(60)
        return Text(name="slow", text="", step=0)

    store.put(Deferred("text", "slow", 10, build), 10)
    assert building.wait(60)
    for step in range(10):  # beyond what the queue holds
        emit(emitter, step)
        emitter.scalar("loss", 1, step=step)
    counts = store.counts()
    assert counts.lost["queue_full"] >= 53
    assert counts.emitted == 1 + 10 * 107 == counts.queued + counts.stored + sum(counts.lost.values())
    release.set()
    assert store.close(60)
    emit(emitter, 99)
    counts = store.counts()
    assert counts.lost["emitted_after_close"] == 106
    assert counts.queued == 0
    assert counts.emitted == 11 * 107 == counts.stored + sum(counts.lost.values())
    assert StoreReader(run_folder).last_seq() == counts.stored


def test_a_forked_child_counts_every_artifact_of_a_block(run_folder):
    script = f"""
import os, sys, warnings
from pathlib import Path
from tracker_adapters.emitter import Emitter
from tracker_adapters.store.writing.run_store import RunStore
store = RunStore(Path({str(run_folder)!r}))
emitter = Emitter(store)
names = ["a", "b", "c"]
emitter.scalars(names, [1, 2, 3], step=0)
pid = os.fork()
if pid == 0:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        emitter.scalars(names, [1, 2, 3], step=1)
    counts = store.counts()
    os._exit(0 if (counts.emitted, counts.lost) == (3, {{"emitted_in_forked_process": 3}}) else 1)
_, status = os.waitpid(pid, 0)
emitter.scalars(names, [4, 5, 6], step=1)
assert store.close(60)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert RunRecord(run_folder).scalars("b").values.tolist() == [2, 5]


def test_after_a_resume_the_later_attempt_is_returned(run_folder):
    for attempt in range(2):
        store = RunStore(run_folder, resume=attempt > 0)
        Emitter(store).histograms(NAMES, HistogramColumns.of(histograms(attempt, 7)), step=7, time_ns=5)
        Emitter(store).scalars(NAMES, np.full(53, attempt), step=7)
        assert store.close(60)
    record = RunRecord(run_folder)
    assert record.histograms(NAMES[3]) == [histograms(1, 7)[3]]
    assert record.scalars(NAMES[3]).values.tolist() == [1]


def test_series_are_found_across_segments_and_groups(run_folder):
    store = RunStore(run_folder, segment_bytes=300_000)
    emitter = Emitter(store)
    for step in range(60):
        emit(emitter, step)
        assert store.flush(60)
    assert store.close(60)
    assert len(list(store.folder.glob("segment_*.db"))) > 1
    record = RunRecord(run_folder)
    for name in (NAMES[0], NAMES[-1]):
        assert [one.step for one in record.histograms(name)] == list(range(60))
        assert record.scalars(f"{name}/norm").steps.tolist() == list(range(60))
    assert record.scalar_ranges(f"{NAMES[2]}/norm").counts.tolist() == [60]


def test_a_tensor_and_step_take_less_than_1_kb(run_folder):
    """Of a million normally distributed values: one histogram and one scalar, indices included."""
    values = np.random.default_rng(0).normal(0, 1e-3, 1_000_000).astype(np.float32)
    columns = HistogramColumns.of([Histogram.from_values("h", values, step=0)] * 53)
    store = RunStore(run_folder)
    emitter = Emitter(store)
    for step in range(100):
        emitter.histograms(NAMES, columns, step=step)
        emitter.scalars(NAMES, np.arange(53), step=step)
    assert store.close(60)
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    assert size / (53 * 100) < 1000


def test_a_damaged_histogram_is_a_clear_error(run_folder):
    store = RunStore(run_folder)
    emit(Emitter(store), 0)
    assert store.flush(60)
    store._segment._connection.execute("UPDATE histogram SET data = substr(data, 1, 50) WHERE seq = 5")
    assert store.close(60)
    with pytest.raises(RunError, match="damaged"):
        RunRecord(run_folder).histograms(NAMES[4])
    assert RunRecord(run_folder).histograms(NAMES[3])
