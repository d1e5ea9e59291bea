"""Faults of the training and of the delivery while all four sinks are on: each tracker shows everything once."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from all_sinks import SINKS, assert_each_shows_everything_once, prepared, wait_until_each_has
from fault_training import emitted_by
from faults import accounts, first_on_path, stored_counts, training
from waiting import until

import stepscope

pytestmark = [pytest.mark.fault, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path):
    return prepared(tmp_path / "run")


def has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def sync_to_each(folder):
    command = [sys.executable, "-m", "stepscope", "sync", str(folder)]
    command += [argument for sink in SINKS for argument in ("--to", sink)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_deliveries_that_are_killed_stopped_and_told_to_end(folder, fault_report):
    pauses = [30, 60, 90, 120, 150]
    with training(folder, SINKS, steps=160, pauses=pauses) as run:
        run.wait_for_step(30)
        wait_until_each_has(folder, emitted_by(31).total())
        for end, step in ((psutil.Process.kill, 60), (psutil.Process.terminate, 90)):
            children = run.delivery_processes()
            assert len(children) == len(SINKS)
            for child in children:
                end(child)
            until(lambda children=children: all(map(has_ended, children)))
            start = time.monotonic()
            run.go_on()
            run.wait_for_step(step)
            wait_until_each_has(folder, emitted_by(step + 1).total())
            what = "killed" if end is psutil.Process.kill else "told to end (SIGTERM)"
            fault_report.add(
                f"all four sinks: delivery processes {what}", runs=len(SINKS), recovery_s=time.monotonic() - start
            )
        children = run.suspend_deliveries(len(SINKS))
        run.go_on()
        run.wait_for_step(120)
        until(lambda: stored_counts(folder) == emitted_by(121))
        run.go_on()
        run.wait_for_step(150)
        for child in children:
            child.resume()
        seconds = wait_until_each_has(folder, emitted_by(151).total())
        run.go_on()
        assert run.result()["complete"]
    assert stored_counts(folder) == emitted_by(160)
    assert_each_shows_everything_once(folder)
    fault_report.add("all four sinks: delivery processes stopped (SIGSTOP)", runs=len(SINKS), recovery_s=seconds)


def test_a_training_that_is_told_to_end_is_delivered_by_its_orphans(folder, fault_report):
    with training(folder, SINKS, steps=200, pauses=[100]) as run:
        run.wait_for_step(100)
        until(lambda: stored_counts(folder) == emitted_by(101))
        children = run.delivery_processes()
        run.process.terminate()
        assert run.end() == -signal.SIGTERM
        seconds = until(lambda: all(map(has_ended, children)))
    assert stored_counts(folder) == emitted_by(101)
    assert stepscope.read_run(folder).info.status == "failed"
    assert_each_shows_everything_once(folder)
    fault_report.add("all four sinks: SIGTERM to the training", recovery_s=seconds)


def test_a_machine_that_goes_down_is_made_good_by_a_sync(folder, fault_report):
    """Everything is killed at once, in the middle of delivering."""
    with training(folder, SINKS, steps=400, pauses=[50, 300]) as run:
        run.wait_for_step(50)
        wait_until_each_has(folder, emitted_by(51).total())
        children = run.delivery_processes()
        run.go_on()
        run.wait_for_step(300)
        until(lambda: stored_counts(folder) == emitted_by(301))
        for process in (*children, psutil.Process(run.process.pid)):
            process.send_signal(signal.SIGKILL)
        run.end()
        until(lambda: all(map(has_ended, children)))
    start = time.monotonic()
    sync_to_each(folder)
    assert stored_counts(folder) == emitted_by(301)
    assert_each_shows_everything_once(folder)
    fault_report.add(
        "all four sinks: everything killed at once, then stepscope sync", recovery_s=time.monotonic() - start
    )


def test_packages_that_are_missing_leave_everything_for_a_later_sync(folder, tmp_path, fault_report):
    packages = ("tensorboard", "mlflow", "wandb")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        f"import sys\nsys.modules |= dict.fromkeys({packages!r})"  # as if none were installed
    )
    environment = first_on_path(tmp_path / "site")
    with training(folder, packages, steps=60, environment=environment, missing="local") as run:
        assert run.result()["complete"]
        for package in packages:
            assert f"pip install 'stepscope[{package}]'" in run.errors()
    assert set(accounts(folder)) == {"local"}
    sync_to_each(folder)
    assert stored_counts(folder) == emitted_by(60)
    assert_each_shows_everything_once(folder)
    ends = {native_import(package, environment) for package in ("torch.utils.tensorboard", *packages[1:])}
    fault_report.add(
        "SDKs of three trackers missing", runs=len(packages), native="the program ends: " + ", ".join(sorted(ends))
    )


def native_import(package, environment):
    """Imports a tracker's own client; returns what ends the program."""
    script = [sys.executable, "-c", f"import {package}"]
    done = subprocess.run(script, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1].partition(":")[0]
