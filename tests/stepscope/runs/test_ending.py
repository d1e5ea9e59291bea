"""How runs end: closed twice, from several threads, by a script that forgot it, by a kill."""

import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
from delivery_processes import delivery_processes
from tracker_adapters.delivery import handle, process
from tracker_adapters.errors import DeliveryError
from tracker_adapters.store.layout import rank_folder, segment_path
from tracker_adapters.testing import FailingSink, MemorySink, StalledSink
from waiting import in_threads, until

import stepscope


def test_a_script_that_forgets_to_close_still_gets_everything_out(tmp_path):
    for name, ending, status in (("clean", "", "finished"), ("dirty", "raise SystemError('x')", "failed")):
        script = f"""
import stepscope
run = stepscope.open_run({str(tmp_path / name)!r}, sinks=[])
for step in range(10):
    run.scalar("loss", step, step=step)
{ending}
"""
        subprocess.run([sys.executable, "-c", script], check=not ending, timeout=60, stderr=subprocess.DEVNULL)
        record = stepscope.read_run(tmp_path / name)
        assert len(record.scalars("loss")) == 10
        assert record.info.status == status


def test_a_killed_run_reads_as_failed_with_all_but_the_last_100_ms(tmp_path):
    script = f"""
import os, signal, stepscope
run = stepscope.open_run({str(tmp_path / "run")!r}, sinks=[])
for step in range(1000):
    run.scalar("loss", step, step=step)
run.flush_store()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == -9
    record = stepscope.read_run(tmp_path / "run")
    assert len(record.scalars("loss")) == 1000
    assert record.info.status == "failed"
    assert not record.is_live


def test_the_lowest_rank_says_how_a_run_without_rank_0_ended(tmp_path):
    path = tmp_path / "run"
    first = stepscope.open_run(path, sinks=[], rank=1, config={"of": 1})
    second = stepscope.open_run(path, sinks=[], rank=2, config={"of": 2})
    for run in (first, second):
        run.scalar("loss", 1.0, step=0)
    second.close()
    with stepscope.read_run(path) as record:
        assert (record.info.status, record.manifest.ended_ns) == ("running", None)
        first.close()
        assert record.info.status == "finished" and record.manifest.ended_ns
        assert record.info.config == {"of": 1}


def test_a_resumed_run_without_rank_0_lives_again(tmp_path):
    for ending in ("finished", "failed"):
        run = stepscope.open_run(tmp_path / "run", sinks=[], rank=1, resume=True)
        run.scalar("loss", 1.0, step=0)
        run.flush_store()
        with stepscope.read_run(tmp_path / "run") as record:
            assert (record.info.status, record.is_live) == ("running", True)
            run.finish(ending)
            assert record.info.status == ending


def test_closing_from_several_threads_at_once_is_one_closing(tmp_path):
    run = stepscope.open_run(tmp_path, sinks=[MemorySink()])
    for step in range(2000):
        run.scalar("loss", step, step=step)
    results = []
    in_threads(lambda _: results.append(run.close(60)), range(6))
    assert results == [True] * 6


@pytest.mark.parametrize("sinks", [0, 1])
def test_closing_tells_once_how_much_was_lost_and_why(tmp_path, caplog, sinks):
    run = stepscope.open_run(tmp_path / "run", sinks=[MemorySink()] * sinks)
    run.scalar("loss", 0, step=0)
    assert run.flush_store()
    # A sink may write its cursor meanwhile.
    until(lambda: shutil.rmtree(run.path, ignore_errors=True) or not run.path.exists())
    for step in range(1, 5):
        run.scalar("loss", step, step=step)
    assert not run.close(60)
    assert not run.close(60)
    told = [record.getMessage() for record in caplog.records if " lost and not in the run store " in record.message]
    assert len(told) == 1
    assert re.fullmatch(r"4 artifacts are lost .*/run: store_not_writable \(4\); .* was deleted or moved", told[0])


def test_closing_a_run_that_lost_nothing_tells_of_no_loss(tmp_path, caplog):
    run = stepscope.open_run(tmp_path / "run", sinks=[])
    run.scalar("loss", 0, step=0)
    assert run.close(60)
    assert "lost" not in caplog.text


def test_a_store_that_hangs_keeps_close_to_its_deadline(tmp_path):
    run = stepscope.open_run(tmp_path, sinks=[MemorySink()])
    run.scalar("loss", 1, step=0)
    assert run.flush_store()
    run._store._segment._connection.execute("PRAGMA busy_timeout=60000")
    blocker = sqlite3.connect(segment_path(rank_folder(tmp_path, 0), 0), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    run.scalar("loss", 2, step=1)
    start = time.monotonic()
    assert not run.close(0.3)
    assert not run.flush(0.1)
    assert time.monotonic() - start < 30  # SQLite itself waits a minute for the lock
    stats = run.stats
    assert (stats.emitted, stats.stored, stats.queued) == (2, 1, 1)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert run.flush_store(60), "the store goes on when it can"
    record = stepscope.read_run(tmp_path)
    assert record.scalars("loss").values.tolist() == [1, 2]
    assert record.info.status == "finished"


def test_closing_gives_back_what_a_run_had_open(tmp_path):
    stepscope.open_run(tmp_path / "first", sinks=["local", MemorySink()]).close()
    process = psutil.Process()
    # Python's count: the system's still has a thread that was joined and is about to leave.
    files, threads = process.num_fds(), threading.active_count()
    runs = []
    for number in range(3):
        run = stepscope.open_run(tmp_path / str(number), sinks=["local", MemorySink()])
        run.scalar("loss", 1, step=0)
        assert run.close()
        runs.append(run)
    # What other tests left behind may come and go meanwhile.
    until(lambda: process.num_fds() <= files and threading.active_count() <= threads)


def test_a_run_that_is_opened_in_one_thread_may_be_closed_in_another(tmp_path):
    runs = []
    opening = threading.Thread(target=lambda: runs.append(stepscope.open_run(tmp_path, sinks=[MemorySink()])))
    opening.start()
    opening.join()
    runs[0].scalar("loss", 1, step=0)
    assert runs[0].flush(60)
    assert runs[0].close(60)
    assert runs[0].stats.sinks["MemorySink"].delivered == 1


def test_the_exception_that_ended_the_training_stands_before_a_failing_sink(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        stepscope.open_run(tmp_path, sinks=[FailingSink(None)], on_error="raise") as run,
    ):
        run.scalar("loss", 1, step=0)
        until(lambda: run.stats.sinks["FailingSink"].error)
        with pytest.raises(DeliveryError):
            run.flush(0.1)
        1 / 0  # noqa: B018


def test_forgotten_runs_all_end_even_when_one_of_them_hangs_or_raises(tmp_path):
    script = f"""
import stepscope, stepscope.runs.unclosed
from tracker_adapters.testing import FailingSink, StalledSink
stepscope.runs.unclosed.CLOSE_TIMEOUT_S = 0.5
for name, sink in (("hanging", StalledSink()), ("failing", FailingSink(None))):
    run = stepscope.open_run({str(tmp_path)!r} + "/" + name, sinks=[sink], on_error="raise")
    run.scalar("loss", 1, step=0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, stderr=subprocess.DEVNULL)
    for name in ("hanging", "failing"):
        record = stepscope.read_run(tmp_path / name)
        assert len(record.scalars("loss")) == 1
        assert record.info.status == "finished"


@pytest.fixture
def no_time_for_sinks(monkeypatch):
    """Who waits for sinks finds that the time to close is over, of which the store has a minute before."""
    over = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600, sleep=time.sleep)
    for module in (handle, process):
        monkeypatch.setattr(module, "time", over)


@pytest.mark.usefixtures("no_time_for_sinks")
@pytest.mark.parametrize("target", ["my files", pytest.param("", marks=pytest.mark.slow)])
def test_a_run_that_could_not_wait_says_what_waits_and_the_command_that_carries_on(
    tmp_path, monkeypatch, caplog, target
):
    monkeypatch.chdir(tmp_path)
    sink = {"type": "local", **({"path": tmp_path / target} if target else {})}
    run = stepscope.open_run("runs/exp1", sinks=[sink])
    [delivery] = delivery_processes(run=run.path)
    delivery.suspend()
    for step in range(1200):
        run.scalar("loss", step, step=step)
    assert not run.close(timeout=60)
    delivery.resume()
    delivery.wait(60)
    [line] = [record.getMessage() for record in caplog.records if "still waiting" in record.getMessage()]
    waiting, goes_on, command = line.split("; ")
    assert re.fullmatch(r"[\d,]+ artifacts? (is|are) still waiting for local \(.*\)", waiting)
    assert goes_on == "delivery continues in the background"
    arguments = shlex.split(command.removeprefix("if it stops: "))
    assert arguments[:4] == ["stepscope", "sync", "runs/exp1", "--to"]
    assert arguments[4] == (f"local:{tmp_path / target}" if target else "local")
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    csv = (tmp_path / target if target else run.path / "local") / "scalars.csv"
    assert len(csv.read_text(encoding="utf-8").splitlines()) == 1201


@pytest.mark.usefixtures("no_time_for_sinks")
def test_a_sink_in_this_process_promises_no_background(tmp_path, caplog):
    stalled = StalledSink()
    run = stepscope.open_run(tmp_path / "run", sinks=[stalled])
    run.scalar("loss", 1, step=0)
    assert stalled.entered.wait(60)
    assert not run.close(timeout=60)
    assert (
        f"1 artifact is still waiting for StalledSink (stalled); safe in the run store {tmp_path / 'run'}"
        in caplog.text
    )
    assert "background" not in caplog.text
    stalled.release.set()
