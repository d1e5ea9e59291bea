"""The delivery process as a user meets it: no spawn guard, soon in the event file, never in the way."""

import itertools
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from delivery_processes import delivery_processes
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.process import DeliveryProcess
from tracker_adapters.registry import load_sink
from tracker_adapters.store.layout import DELIVERY_LOG, rank_folder
from waiting import until

import stepscope
from stepscope.runs.unclosed import CLOSE_TIMEOUT_S


def test_an_artifact_is_in_the_event_file_within_a_second(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=["tensorboard"]) as run:
        run.scalar("loss", 1.0, step=0)
        assert run.flush(60)
        (event_file,) = (tmp_path / "run").glob("events.out.tfevents.*")

        def delay(step):
            size = event_file.stat().st_size
            run.scalar("loss", 1.0, step=step)
            return until(lambda: event_file.stat().st_size > size, every_s=0.005)

        def all_soon():
            delays = [delay(next(steps)) for _ in range(10)]
            return statistics.median(delays) < 0.5 and max(delays) < 1.0

        # Delivery gives way to whatever else runs on the machine, which only adds to a round.
        steps = itertools.count(1)
        until(all_soon, 120)


def test_a_folder_whose_name_is_no_utf8_is_delivered_into(tmp_path):
    folder = tmp_path / os.fsdecode(b"r\xffn")
    with stepscope.open_run(folder, sinks=["local"]) as run:
        run.scalar("loss", 1.0, step=0)
    assert run.stats.sinks["local"].delivered == 1
    assert len((folder / "local" / "scalars.csv").read_text().splitlines()) == 2


def test_a_script_needs_no_spawn_guard(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import stepscope\n"
        "run = stepscope.open_run('run', sinks=['local'])\n"
        "for step in range(20):\n"
        "    run.scalar('loss', 1 / (step + 1), step=step)\n"
        "assert run.close(60)\n"
    )
    # A file that is called like a package of a tracker must not be imported by the delivery process.
    (tmp_path / "wandb.py").write_text("raise SystemExit('imported the wrong wandb')")
    (tmp_path / "joblib.py").write_text("raise SystemExit('imported the wrong joblib')")
    subprocess.run([sys.executable, "-P", str(script)], cwd=tmp_path, check=True, timeout=120)
    assert len((tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()) == 21


def test_a_stopped_delivery_blocks_neither_emit_nor_close(tmp_path):
    run = stepscope.open_run(tmp_path / "run", sinks=["local"])
    run.scalar("loss", 1.0, step=0)
    assert run.flush(60)
    (child,) = delivery_processes(run=run.path)
    child.suspend()
    try:
        durations = []
        for step in range(1, 5001):
            start = time.perf_counter()
            run.scalar("loss", 1.0, step=step)
            durations.append(time.perf_counter() - start)
        assert run.flush_store(60)
        assert not run.flush(0.3)
        start = time.monotonic()
        assert not run.close(1.0)
        assert time.monotonic() - start < 30  # it is suspended until the test ends
        assert statistics.median(durations) < 100e-6
        assert run.stats.sinks["local"].pending == 5000
    finally:
        child.resume()
    # It was only slow: it goes on by itself, and leaves.
    psutil.wait_procs([child], timeout=60)
    assert len((tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()) == 5002


@pytest.mark.slow
def test_a_terminated_delivery_leaves_cleanly_and_is_replaced(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=["local"]) as run:
        run.scalar("loss", 0, step=0)
        assert run.flush(60)
        (child,) = delivery_processes(run=run.path)
        child.send_signal(signal.SIGTERM)
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
        run.scalar("loss", 1, step=1)
        assert run.flush(60)
        (other,) = delivery_processes(run=run.path)
        assert other.pid != child.pid
    assert len((tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_interrupting_the_trainer_leaves_delivery_to_drain(tmp_path):
    script = f"""
import os, signal, socket, stepscope
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with it ignored
with stepscope.open_run({str(tmp_path / "run")!r}, sinks=["local"]) as run:
    for step in range(100):
        run.scalar("loss", step, step=step)
    signalled, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())  # another thread may take the signal, which would end no wait of this one
    os.killpg(os.getpgrp(), signal.SIGINT)
    signalled.recv(1)
    signalled.recv(1)  # never reached: the interrupt comes before
"""
    done = subprocess.run(
        [sys.executable, "-c", script], timeout=120, start_new_session=True, capture_output=True, text=True, check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    assert len((tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()) == 101
    assert stepscope.read_run(tmp_path / "run").info.status == "failed"


def test_a_child_that_cannot_start_is_said_and_costs_nothing(tmp_path, monkeypatch, caplog):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho broken interpreter >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    run = stepscope.open_run(tmp_path / "run", sinks=["local"])
    for step in range(10):
        run.scalar("loss", step, step=step)
    assert not run.flush(0.5)
    until(lambda: "exit code 3" in caplog.text)
    assert not run.close(1.0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    stepscope.open_run(tmp_path / "run", sinks=["local"], resume=True).close(0)
    assert "cannot be started" in caplog.text
    assert "broken interpreter" in (rank_folder(tmp_path / "run", 0) / DELIVERY_LOG).read_text()
    assert len(stepscope.read_run(tmp_path / "run").scalars("loss")) == 10


def test_a_child_that_reads_nothing_blocks_neither_opening_nor_close(tmp_path, monkeypatch):
    deaf = tmp_path / "python"
    deaf.write_text(f"#!{sys.executable}\nimport signal\nsignal.pause()\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(deaf))
    # More than a pipe holds.
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"/nowhere/{number:0100}" for number in range(2000))])
    start = time.monotonic()
    run = stepscope.open_run(tmp_path / "run", sinks=["local"])
    (child,) = delivery_processes(run=run.path)
    run.scalar("loss", 1, step=0)
    assert not run.close(0.5)
    assert time.monotonic() - start < CLOSE_TIMEOUT_S / 2  # a pipe that nobody reads would block for ever
    child.kill()
    psutil.wait_procs([child], timeout=60)


def test_a_closed_run_starts_no_process_again(tmp_path):
    run = stepscope.open_run(tmp_path / "run", sinks=["local"])
    run.scalar("loss", 0, step=0)
    assert run.flush(60)
    (child,) = delivery_processes(run=run.path)
    child.suspend()
    run.scalar("loss", 1, step=1)
    assert not run.close(0.2)
    assert not run.flush(2.5)
    child.resume()
    psutil.wait_procs([child], timeout=60)
    assert run.flush(60)
    assert delivery_processes(run=run.path) == []


@pytest.mark.slow
def test_a_forked_child_touches_neither_delivery_nor_its_ledger(tmp_path):
    script = f"""
import os, sys, warnings, psutil, stepscope
warnings.simplefilter("ignore")
with stepscope.open_run({str(tmp_path / "run")!r}, sinks=["local"]) as run:
    run.scalar("loss", 0, step=0)
    assert run.flush(60)
    pid = os.fork()
    if pid == 0:
        run.scalar("loss", 1, step=1)
        delivered = run.flush(2.5), run.flush_store(), run.close(1)
        stats = run.stats
        clean = delivered == (False,) * 3 and (stats.emitted, stats.stored, stats.sinks) == (1, 0, {{}})
        os._exit(0 if clean and not psutil.Process().children() else 1)
    assert os.waitpid(pid, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert len((tmp_path / "run" / "local" / "scalars.csv").read_text().splitlines()) == 2


def test_no_process_stays_behind(tmp_path):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with stepscope.open_run(tmp_path / "run", sinks=["local", "tensorboard"]) as run:
        run.scalar("loss", 0, step=0)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_one_that_somebody_tells_to_end_while_it_is_waited_for_is_started_again(tmp_path):
    waits = threading.Event()

    class Waited(DeliveryProcess):
        def come_forward(self):
            waits.set()
            super().come_forward()

    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, ThreadPoolExecutor(1) as pool:
        run.scalar("loss", 1.0, step=0)
        delivery = Waited(run.path, 0, SinkConfig("local", load_sink("local").resolve({}, run.path)))
        delivery.start()
        until((run.path / "local" / "scalars.csv").exists)
        left = pool.submit(delivery.wait_until, time.monotonic() + 120)
        assert waits.wait(60)
        (first,) = delivery_processes(run=run.path)
        first.terminate()
        until(lambda: [one for one in delivery_processes(run=run.path) if one != first])
        run.scalar("loss", 0.5, step=1)
        run.close()
        assert left.result(120)
    assert len((run.path / "local" / "scalars.csv").read_text().splitlines()) == 3
