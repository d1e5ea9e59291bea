"""Faults of W&B's client, its service and our delivery: the training goes on, and every artifact is shown once."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from fault_training import emitted_by
from faults import accounts, first_on_path, stored_counts, training
from native_wandb import PAUSE_AFTER, NativeClient
from readback_wandb import history, read_back, run_folders
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger
from waiting import until

import stepscope

pytestmark = [pytest.mark.fault, pytest.mark.slow]

STEPS = 400


def assert_shown_once(folder, stored=None):
    """Asserts that W&B's files show what is stored, each artifact once, in one run that was never started again."""
    options = {"target": str(folder)}
    shown = Counter((one.kind, one.name, one.step) for one in read_back(options))
    assert set(shown.values()) <= {1}
    assert Counter(kind for kind, *_ in shown) == (stored or stored_counts(folder))
    assert run_folders(options, superseded=True) == []
    assert len(run_folders(options)) == 1


def assert_done(run):
    """Asserts that a training ended undisturbed, with all of it stored, delivered and shown."""
    found = run.result()
    assert found["complete"], found
    assert found["emitted"] == found["stored"] == emitted_by(STEPS).total()
    assert found["lost"] == {}
    account = accounts(run.folder)["wandb"]
    assert (account.delivered, account.pending, account.failed) == (emitted_by(STEPS).total(), 0, {})
    assert_shown_once(run.folder, emitted_by(STEPS))


def deliver_rest(folder):
    """Opens a run again without news, which delivers what is left; returns the seconds that it took."""
    started = time.monotonic()
    assert stepscope.open_run(folder, sinks=["wandb"], resume=True).close(60)
    return time.monotonic() - started


def delivered(folder):
    """Returns how many artifacts are delivered by now."""
    with Ledger(rank_folder(folder, 0)) as ledger:
        return sum(position.delivered for position in ledger.positions().values())


def wait_for_first_delivery(folder):
    """Waits until a position is kept: what was written before the first one is superseded by another W&B run."""
    until(lambda: delivered(folder) > 0)


def shown_by(client):
    """Returns how many rows the client's own file holds."""
    (folder,) = (client.folder / "wandb").glob("offline-run-*")
    return len(history(folder))


def test_the_process_that_writes_is_stopped_and_goes_on(tmp_path, fault_report):
    with NativeClient(tmp_path / "native") as client:
        client.service.suspend()
        client.go_on()
        said = client.said()
        client.service.resume()
        recovered = client.said(silence_s=30.0)[-1:] == ["finished"]
    assert "finished" not in said
    with training(tmp_path / "run", ["wandb"], steps=STEPS, pauses=[100, STEPS - 1]) as run:
        run.wait_for_step(100)
        (child,) = run.delivery_processes()
        child.suspend()
        run.go_on()
        run.wait_for_step(STEPS - 1)
        run.go_on()
        child.resume()
        started = time.monotonic()
        assert_done(run)
        seconds = time.monotonic() - started
    fault_report.add(
        "W&B: the process that writes the file is stopped (SIGSTOP), later continued",
        recovery_s=seconds,
        native=f"run.log blocks after {len(said)} calls, until its service goes on ({recovered=})",
    )


def test_the_process_that_writes_is_killed(tmp_path, fault_report):
    with NativeClient(tmp_path / "native") as client:
        client.service.kill()
        until(lambda: client.service.status() == psutil.STATUS_ZOMBIE)
        client.go_on()
        said = client.said(silence_s=30.0)
        kept = shown_by(client)
    assert said[-1].startswith("raised")
    with training(tmp_path / "run", ["wandb"], steps=STEPS, pauses=[50, 150, 250]) as run:
        for step in (50, 150, 250):
            run.wait_for_step(step)
            wait_for_first_delivery(run.folder)
            run.kill_deliveries()
            started = time.monotonic()
            run.go_on()
        assert_done(run)
        seconds = time.monotonic() - started
    fault_report.add(
        "W&B: the process that writes the file is killed (kill -9)",
        runs=3,
        recovery_s=seconds,
        native=f"run.log {said[-1]} in the training; {kept} of {PAUSE_AFTER + 1} rows in its file",
    )


def test_a_delivery_process_that_is_told_to_end_is_started_again(tmp_path, fault_report):
    with training(tmp_path / "run", ["wandb"], steps=STEPS, pauses=[100]) as run:
        run.wait_for_step(100)
        wait_for_first_delivery(run.folder)
        (child,) = run.delivery_processes()
        child.terminate()
        started = time.monotonic()
        run.go_on()
        assert_done(run)
        seconds = time.monotonic() - started
    fault_report.add("W&B: SIGTERM to the delivery process", recovery_s=seconds)


@pytest.mark.parametrize("both", [False, True], ids=["alone", "with the process that writes"])
def test_a_training_that_is_told_to_end(tmp_path, fault_report, both):
    with NativeClient(tmp_path / "native") as client:
        if both:
            client.service.terminate()
        client.process.terminate()
        client.process.wait(60)
        until(lambda: not client.service.is_running())
        kept = shown_by(client)
    with training(tmp_path / "run", ["wandb"], steps=STEPS, pauses=[200]) as run:
        run.wait_for_step(200)
        until(lambda: stored_counts(run.folder) == emitted_by(201))
        wait_for_first_delivery(run.folder)
        children = run.delivery_processes()
        assert children
        for child in children if both else ():
            child.terminate()
        run.process.send_signal(signal.SIGTERM)
        run.process.wait(60)
        until(lambda: not any(child.is_running() for child in children))
    seconds = deliver_rest(tmp_path / "run")
    account = accounts(tmp_path / "run")["wandb"]
    assert (account.pending, account.failed) == (0, {})
    assert_shown_once(tmp_path / "run", emitted_by(201))
    fault_report.add(
        "W&B: SIGTERM to the training" + (" and to the process that writes the file" if both else ""),
        recovery_s=seconds,
        native=f"{kept} of {PAUSE_AFTER + 1} rows in its file",
    )


@pytest.mark.parametrize(
    "package",
    [
        pytest.param("raise ImportError('a dependency is missing')", id="raises at import"),
        pytest.param("import time; time.sleep(3600)", id="hangs at import"),
        pytest.param("__version__ = '0.12.0'", id="is too old"),
    ],
)
def test_a_broken_sdk_is_never_imported(tmp_path, fault_report, package, request):
    broken = tmp_path / "packages" / "wandb"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(package + "\n")
    environment = first_on_path(broken.parent)
    with training(tmp_path / "run", ["wandb"], steps=STEPS, environment=environment) as run:
        assert_done(run)
    fault_report.add(f"W&B: its SDK {request.node.callspec.id}", native=native_import(environment))


def native_import(environment):
    """Returns what ``wandb.init`` does to a program in which W&B's package is what ``environment`` brings."""
    program = [sys.executable, "-c", "import wandb; wandb.init(mode='offline')"]
    try:
        done = subprocess.run(program, env=os.environ | environment, capture_output=True, check=False, timeout=5)
    except subprocess.TimeoutExpired:
        return "the program hangs (5 s and on)"
    return f"the program ends: {done.stderr.decode().strip().splitlines()[-1]}"


def test_a_file_that_was_torn_after_a_kill_goes_on(tmp_path, fault_report):
    with training(tmp_path / "run", ["wandb"], steps=STEPS, pauses=[200]) as run:
        run.wait_for_step(200)
        until(lambda: delivered(run.folder) == emitted_by(201).total())
        run.kill_deliveries()
        run.process.kill()
        run.process.wait(60)
    (folder,) = run_folders({"target": str(tmp_path / "run")})
    with next(folder.glob("*.wandb")).open("ab") as log:
        log.write(b"\x00" * 5000 + b"torn")
    seconds = deliver_rest(tmp_path / "run")
    assert accounts(tmp_path / "run")["wandb"].pending == 0
    assert_shown_once(tmp_path / "run")
    fault_report.add("W&B: a torn and NUL-filled tail of its file", recovery_s=seconds)
