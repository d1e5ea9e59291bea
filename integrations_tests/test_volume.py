"""Runs with a limit: a simulated week, a live run, and compactions that are killed."""

import random
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from faults import accounts
from simulated_week import simulate
from tracker_adapters.artifacts import Histogram, RunInfo
from tracker_adapters.child_process import start_module
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.recording import HistogramBlock, ScalarBlock
from tracker_adapters.store.layout import rank_folder, segment_name, segments
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.segment import SegmentWriter
from tracker_adapters.store.upkeep.compaction import TEMPORARY
from tracker_adapters.store.upkeep.retention import retain, run_bytes
from waiting import until

import stepscope
from stepscope.sync import sync_runs

pytestmark = pytest.mark.slow

STEPS = 1500
NAMES = ("a", "b", "c")


def write_run(folder, steps=STEPS):
    """A closed run of six names in several segments."""
    folder.mkdir(parents=True)
    Manifest(RunInfo(id="run", name="run", status="finished")).save(folder)
    rank = rank_folder(folder, 0)
    rank.mkdir(parents=True)
    writer = SegmentWriter(rank, lambda _: "", segment_bytes=200_000)
    columns = HistogramColumns.of([Histogram.from_values("h", np.arange(1.0, 60.0), step=0)] * len(NAMES))
    for start in range(0, steps, 10):
        items: list[HistogramBlock | ScalarBlock] = []
        for step in range(start, start + 10):
            values = np.array([step, -step, np.nan if step % 100 == 0 else 1.0])
            items += [HistogramBlock(NAMES, step, step, columns), ScalarBlock(NAMES, step, step, values)]
        writer.commit(items)
    writer.close()


def check_readable(folder, steps=STEPS):
    """Every name, over its whole range, each number once or absent."""
    with RunRecord(folder) as record:
        assert {(info.name, info.count, info.last_step) for info in record.names()} == {
            (name, steps, steps - 1) for name in NAMES
        }
        for name in NAMES:
            series = record.scalars(name)
            assert (series.steps[0], series.steps[-1]) == (0, steps - 1)
            assert (np.diff(series.steps) > 0).all()
            assert sum(one.count for one in record.histograms(name)) == 59 * steps
            assert int(record.scalar_ranges(name).counts.sum()) == steps
    reader, after, found = StoreReader(folder), 0, 0
    while batch := reader.read(after):
        found, after = found + len(batch) + batch.absent, batch.last_seq
    reader.close()
    assert found == after == 2 * len(NAMES) * steps


@pytest.mark.slow
def test_a_week_stays_within_its_limit_with_every_name_over_its_whole_range(tmp_path):
    week = simulate(tmp_path / "run", 6000, limit_bytes=30 * 10**9, values_a_histogram=300)
    assert week.peak_bytes <= week.limit_bytes
    assert week.written_bytes > 3 * week.limit_bytes
    assert week.counts_exact
    assert week.extremes_exact
    assert week.fewest_histograms > 50
    assert week.max_gap <= week.steps // 10


@pytest.mark.fault
def test_a_killed_compaction_leaves_the_old_or_the_new_content(tmp_path, fault_report):
    draw, pause, kills = random.Random(0), threading.Event(), 0
    whole = tmp_path / "whole"
    write_run(whole)
    for trial in range(10):
        folder = tmp_path / f"run_{trial}"
        shutil.copytree(whole, folder)
        rank = rank_folder(folder, 0)
        with (tmp_path / "log").open("ab") as log:
            child = start_module("tracker_adapters.store.upkeep.compact", [str(folder), "--max-bytes", "1"], log)
        until(lambda rank=rank: (rank / TEMPORARY).exists() or segment_name(segments(rank)[0]).level)
        pause.wait(draw.uniform(0, 0.1))
        child.kill()
        kills += child.wait(60) == -signal.SIGKILL
        check_readable(folder)
        retain(folder, 1)
        check_readable(folder)
        assert not (rank / TEMPORARY).exists()
    assert kills >= 5
    fault_report.add("compaction killed (kill -9)", runs=kills)


def test_a_live_run_keeps_its_limit_and_its_sink_gets_everything(tmp_path):
    """The compaction runs in a process of its own, while training goes on and the sink reads."""
    limit = 20_000_000
    folder = tmp_path / "run"
    run = stepscope.open_run(folder, sinks=["local"], max_run_bytes="20MB")
    names = [f"layers.{number}" for number in range(50)]
    values = np.random.default_rng(0).normal(size=20_000)
    columns = HistogramColumns.of([Histogram.from_values("h", values, step=0)] * len(names))
    steps, peak = 1200, 0
    for step in range(steps):
        run.histograms(names, columns, step=step)
        run.scalar("loss", step, step=step)
        if step % 10 == 9:
            assert run.flush_store(30)
            peak = max(peak, run_bytes(folder))
            if run_bytes(folder) > limit:  # no training is this fast
                until(lambda: run_bytes(folder) <= limit, 60)
    assert run.close(120)
    assert max(segment_name(path).level for path in segments(rank_folder(folder, 0))) > 0
    assert peak < limit + limit // 8
    with stepscope.read_run(folder) as record:
        assert {info.count for info in record.names()} == {steps}
        found = record.histograms(names[7])
        assert sum(one.count for one in found) == steps * values.size
        assert found[-1].step == steps - 1
    (account,) = accounts(folder).values()
    assert (account.pending, account.delivered + sum(account.failed.values())) == (0, steps * (len(names) + 1))


def test_a_sink_that_comes_after_a_compaction_counts_what_is_gone(tmp_path):
    folder = tmp_path / "run"
    write_run(folder)
    retain(folder, int(run_bytes(folder) * 0.4))
    (result,) = sync_runs(folder, to=["local"])
    assert result.complete
    (account,) = accounts(folder).values()
    assert account.pending == 0
    gone = account.failed["compacted"]
    assert account.delivered + gone == 2 * len(NAMES) * STEPS
    with RunRecord(folder) as record:
        left = sum(len(record.scalars(name)) + len(record.histograms(name)) for name in NAMES)
    assert left == account.delivered


def test_gc_makes_a_finished_run_smaller(tmp_path):
    folder = tmp_path / "run"
    write_run(folder)
    before = run_bytes(folder)

    def gc(*arguments):
        command = [sys.executable, "-m", "stepscope", "gc", "r*", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    shown = gc("--max-bytes", str(before // 2), "--dry-run")
    assert (shown.returncode, run_bytes(folder)) == (0, before), shown.stderr
    first, *planned, kept = shown.stdout.splitlines()
    assert first.startswith("run: ")
    assert "would be compacted to about" in first
    assert planned
    assert all(" -> " in line and "thinned to 1/" in line for line in planned)
    assert kept.startswith("  unchanged segments: ")
    done = gc("--max-bytes", str(before // 2))
    assert done.returncode == 0, done.stderr
    assert " -> " in done.stdout
    assert run_bytes(folder) <= before // 2
    check_readable(folder)
    assert "nothing to do" in gc("--max-bytes", "1GB").stdout
    wrong = gc("--max-bytes", "many")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "--max-bytes is 'many'; expected bytes" in wrong.stderr
    away = gc("memory://runs/elsewhere")
    assert (away.returncode, away.stderr.count("\n")) == (2, 1)
    assert "memory://runs/elsewhere is a URL; expected a folder" in away.stderr
