"""open_run and read_run: the callers' contract, with sinks in memory."""

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tracker_adapters.delivery import retry_policy
from tracker_adapters.errors import ArtifactError, DeliveryError, NotARunError, RunExistsError, StartOver
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.testing import FailingSink, MemorySink, StalledSink
from waiting import in_threads, until

import stepscope
from stepscope.runs.unclosed import CLOSE_TIMEOUT_S


def emit_some(run, steps):
    for step in steps:
        run.scalar("loss", 1 / (step + 1), step=step)
        run.histogram("weights/fc1", np.arange(10.0), step=step)


def test_every_emitted_artifact_reaches_every_sink(tmp_path):
    page = tmp_path / "page_0.pkl"
    page.write_bytes(b"page")
    sinks = [MemorySink("a"), MemorySink("b")]
    with stepscope.open_run(tmp_path / "run", sinks=sinks, config={"lr": 0.1}, tags=["t"]) as run:
        emit_some(run, range(50))
        run.image("inputs/0", np.zeros((3, 4, 5), np.uint8), step=10, layout="CHW")
        run.text("notes", "…", step=10)
        run.alert("exploding_gradient", "fc1: norm 3.1e5", step=10, level="error")
        run.page(page, step=10)
        run.file(page, media_type="text/plain", step=10)
        run.table("layers", ["name", "norm"], [["fc1", 1.0]], step=10)
        assert run.flush_store(60)
        assert run.flush(60)
        stats = run.stats
    assert (stats.emitted, stats.stored, stats.lost) == (106, 106, {})
    for sink in sinks:
        assert len(sink.artifacts) == 106
        assert sink.status == "finished"
        assert sink.closed
        assert sink.info is not None
        assert sink.info.config == {"lr": 0.1}
    assert {name: (s.delivered, s.pending, s.failed) for name, s in stats.sinks.items()} == {
        "MemorySink:a": (106, 0, {}),
        "MemorySink:b": (106, 0, {}),
    }
    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == "finished"
    assert len(record.scalars("loss")) == 50
    assert record.histograms("weights/fc1")[3].count == 10
    assert record.images("inputs/0")[0].width == 5
    assert [alert.message for alert in record.alerts()] == ["fc1: norm 3.1e5"]
    assert record.pages()[0].path.read_bytes() == b"page"


def test_an_exception_marks_the_run_failed_and_loses_nothing(tmp_path):
    sink = MemorySink()
    with pytest.raises(ZeroDivisionError), stepscope.open_run(tmp_path, sinks=[sink]) as run:
        run.scalar("loss", 1, step=0)
        1 / 0  # noqa: B018
    assert sink.status == "failed"
    assert len(sink.artifacts) == 1
    assert stepscope.read_run(tmp_path).info.status == "failed"


def test_a_sink_that_fails_for_a_while_gets_everything_once(tmp_path):
    sink = FailingSink(3)
    with stepscope.open_run(tmp_path, sinks=[sink]) as run:
        emit_some(run, range(20))
        assert run.flush(60)
        assert run.stats.sinks["FailingSink"].error == ""
    assert sink.failed == 3
    assert len(sink.artifacts) == 40


def test_a_sink_that_keeps_failing_is_quarantined_with_one_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)
    caplog.set_level(logging.WARNING)
    bad, good = FailingSink(None), MemorySink()
    run = stepscope.open_run(tmp_path, sinks=[bad, good])
    emit_some(run, range(5))
    until(lambda: "is quarantined" in caplog.text and len(good.artifacts) == 10)
    assert not run.close(0.1)
    stats = run.stats
    assert stats.sinks["FailingSink"].state == "quarantined"
    assert (stats.sinks["FailingSink"].delivered, stats.sinks["FailingSink"].pending) == (0, 10)
    assert "failing on purpose" in stats.sinks["FailingSink"].error
    quarantined = [record for record in caplog.records if "is quarantined" in record.message]
    assert len(quarantined) == 1


def test_a_quarantined_sink_recovers_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(retry_policy, "QUARANTINE_S", 0.05)
    sink = FailingSink(retry_policy.FAILURES_TO_QUARANTINE + 2)
    with stepscope.open_run(tmp_path, sinks=[sink]) as run:
        emit_some(run, range(5))
        assert run.flush(60)
    assert len(sink.artifacts) == 10


def test_a_stalled_sink_costs_the_caller_nothing_and_close_keeps_its_deadline(tmp_path):
    stalled, good = StalledSink(), MemorySink()
    run = stepscope.open_run(tmp_path, sinks=[stalled, good])
    run.scalar("loss", 0, step=0)
    assert stalled.entered.wait(60)
    spent = []
    for first in range(1, 10_001, 100):  # a busy machine may hold up most of them
        start = time.monotonic()
        for step in range(first, first + 100):
            run.scalar("loss", step, step=step)
        spent.append(time.monotonic() - start)
    assert min(spent) < 0.01
    until(lambda: len(good.artifacts) == 10_001)
    assert not run.flush(0.2)
    start = time.monotonic()
    assert not run.close(1.0)
    assert time.monotonic() - start < CLOSE_TIMEOUT_S / 2  # the sink is stalled until the test ends
    assert run.stats.sinks["StalledSink"].pending == 10_001
    stalled.release.set()


def test_a_sink_may_ask_to_start_over(tmp_path):
    class Forgetful(MemorySink):
        lost = True

        def open(self, info, token):
            if token is not None and self.lost:
                self.lost = False
                raise StartOver("the output is gone")
            super().open(info, token)

    sink = Forgetful()
    with stepscope.open_run(tmp_path, sinks=[sink]) as run:
        emit_some(run, range(5))
    with stepscope.open_run(tmp_path, sinks=[sink], resume=True) as run:
        emit_some(run, range(5, 7))
    assert [a.step for a in sink.artifacts if a.kind == "scalar"] == list(range(7))
    assert not sink.lost


def test_resume_goes_on_where_each_sink_stood_and_new_sinks_get_everything(tmp_path):
    old, new = MemorySink("old"), MemorySink("new")
    with stepscope.open_run(tmp_path, sinks=[old], config={"lr": 1}) as run:
        emit_some(run, range(3))
        first_id = run.info.id
    with pytest.raises(RunExistsError, match="resume=True"):
        stepscope.open_run(tmp_path, sinks=[old], exists="raise")
    with stepscope.open_run(tmp_path, sinks=[old, new], resume=True) as run:
        assert (run.info.id, run.attempt, run.info.config) == (first_id, 2, {"lr": 1})
        assert stepscope.read_run(tmp_path).info.status == "running"
        emit_some(run, range(3, 5))
    assert len(old.artifacts) == len(new.artifacts) == 10


def test_on_error_raise_shows_a_failing_sink_at_flush(tmp_path):
    run = stepscope.open_run(tmp_path, sinks=[FailingSink(None)], on_error="raise")
    run.scalar("loss", 1, step=0)
    until(lambda: run.stats.sinks["FailingSink"].error)
    with pytest.raises(DeliveryError, match="failing on purpose"):
        run.flush(0.1)
    with pytest.raises(DeliveryError, match="failing on purpose"):
        run.close(0.1)


def test_ranks_have_stores_of_their_own_and_merge_when_read(tmp_path, monkeypatch):
    sink = MemorySink()
    monkeypatch.setenv("RANK", "1")
    second = stepscope.open_run(tmp_path, sinks=[sink])
    monkeypatch.setenv("RANK", "0")
    first = stepscope.open_run(tmp_path, sinks=[sink], resume=False)
    for step in range(3):
        first.scalar("loss", step, step=step)
        second.scalar("loss", 10 + step, step=step)
    first.close()
    second.close()
    record = stepscope.read_run(tmp_path)
    assert record.ranks == (0, 1)
    assert record.scalars("loss", rank=1).values.tolist() == [10, 11, 12]
    both = record.scalars("loss", rank="all")
    assert both.ranks is not None
    assert list(zip(both.steps.tolist(), both.ranks.tolist(), both.values.tolist(), strict=True)) == [
        (0, 0, 0), (0, 1, 10), (1, 0, 1), (1, 1, 11), (2, 0, 2), (2, 1, 12),
    ]  # fmt: skip
    assert len(sink.artifacts) == 3
    with pytest.raises(NotARunError, match="no rank 7"):
        record.scalars("loss", rank=7)


def test_reading_while_writing_sees_what_is_committed(tmp_path):
    with stepscope.open_run(tmp_path, sinks=[]) as run:
        run.scalar("loss", 1, step=0)
        run.flush_store()
        with stepscope.read_run(tmp_path) as record:
            assert record.is_live
            assert record.info.status == "running"
            assert len(record.scalars("loss")) == 1
            run.scalar("loss", 2, step=1)
            run.flush_store()
            assert record.scalars("loss").values.tolist() == [1, 2]
            with pytest.raises(ArtifactError, match="did you mean 'loss'"):
                record.scalars("los")


def test_importing_is_fast_and_light():
    code = "import sys, stepscope; print([m for m in ('torch','mlflow','wandb','tensorboard') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_only_the_store_thread_lives_on_in_process_mode(tmp_path):
    before = set(threading.enumerate())
    with stepscope.open_run(tmp_path, sinks=["local"]) as run:
        run.scalar("loss", 1, step=0)
        new = set(threading.enumerate()) - before
        assert [thread.name for thread in new] == ["stepscope-store"]
    assert os.path.exists(tmp_path / "local" / "scalars.csv")  # noqa: PTH110


def test_counts_add_up_at_every_moment(tmp_path):
    run, stop = stepscope.open_run(tmp_path, sinks=[MemorySink()]), threading.Event()

    def emit():
        step = 0
        while not stop.wait(0.0005):
            step += 1
            run.scalar("loss", step, step=step)

    thread = threading.Thread(target=emit)
    thread.start()
    try:
        for _ in range(30):
            stats = run.stats
            sink = stats.sinks["MemorySink"]
            assert stats.emitted == stats.stored + stats.queued + sum(stats.lost.values())
            assert stats.stored == sink.delivered + sink.pending + sum(sink.failed.values())
            assert min(stats.queued, sink.pending) >= 0
    finally:
        stop.set()
        thread.join()
        run.close()


def test_a_resumed_run_counts_what_earlier_attempts_stored_and_lost(tmp_path):
    for attempt in (1, 2):
        with stepscope.open_run(tmp_path, sinks=[MemorySink()], resume=attempt == 2) as run:
            run.scalar("loss", attempt, step=attempt)
            (tmp_path / "gone.bin").write_bytes(b"x")
            blobs = tmp_path / "blobs"
            blobs.touch()  # a file where the folder of the blobs should be
            run.file(tmp_path / "gone.bin", step=0)
            blobs.unlink()
        stats = run.stats
        assert (stats.emitted, stats.stored, stats.lost) == (2 * attempt, attempt, {"file_not_copied": attempt})
        assert stats.sinks["MemorySink"].delivered == attempt
        assert stepscope.read_run(tmp_path).manifest.lost == stats.lost


def test_a_ledger_that_breaks_is_mended_and_never_reaches_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(retry_policy, "FIRST_RETRY_S", 0.001)
    sink = MemorySink()
    with stepscope.open_run(tmp_path, sinks=[sink]) as run:
        emit_some(run, range(5))
        assert run.flush(60)
        ledger = sqlite3.connect(rank_folder(tmp_path, 0) / DELIVERY_DATABASE)
        ledger.execute("DROP TABLE cursor")
        ledger.close()
        emit_some(run, range(5, 10))
        assert run.flush(60)
        assert run.stats.sinks["MemorySink"].delivered == 20
    assert [a.step for a in sink.artifacts if a.kind == "scalar"] == list(range(10))


def test_ranks_that_open_at_once_agree_on_one_identity(tmp_path):
    runs = []
    in_threads(lambda rank: runs.append(stepscope.open_run(tmp_path, sinks=[], rank=rank)), range(8))
    assert len({run.info.id for run in runs} | {stepscope.read_run(tmp_path).info.id}) == 1
    for run in runs:
        run.close()
