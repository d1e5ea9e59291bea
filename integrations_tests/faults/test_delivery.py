"""The delivery process killed and started twice; a sink that crashes it, hangs in it, or refuses."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import odd_sinks
import pytest
from fault_training import emitted_by
from faults import accounts, training
from tracker_adapters.delivery.outcomes import EXIT_CODES
from tracker_adapters.store.layout import WRITER_LOCK, rank_folder
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.lock import is_locked
from waiting import until

pytestmark = pytest.mark.fault
STEPS = 120


def assert_all_there(run, *, refused=None):
    """Asserts that the odd sink shows everything that was emitted exactly once, but what it refuses."""
    target = run / "odd.jsonl"
    shown = odd_sinks.read_back(target)
    assert len(shown) == len(set(shown))
    assert Counter(kind for kind, _, _ in shown) == emitted_by(STEPS) - (refused or Counter())
    account = accounts(run)["odd"]
    assert (account.pending, account.state) == (0, "done")


def delivered(run):
    """Returns how many artifacts the odd sink has taken."""
    with Ledger(rank_folder(run, 0)) as ledger:
        return sum(position.delivered for position in ledger.positions().values())


def misbehaved(run):
    """Returns how often the odd sink came to where it misbehaves."""
    return int((run / "odd.jsonl.count").read_text())


def synced(run, environment):
    command = [sys.executable, "-m", "stepscope", "sync", str(run), "--to", "odd"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def installed(tmp_path):
    return odd_sinks.install(tmp_path)


def test_a_delivery_killed_again_and_again_delivers_each_artifact_once(tmp_path, installed, fault_report):
    pauses = [20, 40, 60]
    with training(tmp_path / "run", ["odd"], steps=STEPS, pauses=pauses, environment=installed) as run:
        for step in pauses:
            run.wait_for_step(step)
            run.kill_deliveries()
            run.go_on()
        assert run.result()["complete"]
    assert_all_there(tmp_path / "run")
    fault_report.add("delivery process killed", runs=len(pauses))


@pytest.mark.slow
def test_a_second_delivery_of_the_same_run_waits_and_doubles_nothing(tmp_path, installed, fault_report):
    with training(tmp_path / "run", ["odd"], steps=STEPS, pauses=[50], environment=installed) as run:
        run.wait_for_step(50)
        until(lambda: delivered(tmp_path / "run"))
        (child,) = run.delivery_processes()
        request = Path(f"/proc/{child.pid}/fd/0").read_bytes()
        second = subprocess.Popen(
            child.cmdline(), stdin=subprocess.PIPE, env=os.environ | installed, stderr=subprocess.DEVNULL
        )
        assert second.stdin is not None
        second.stdin.write(request)
        second.stdin.close()
        busy = synced(tmp_path / "run", installed)
        assert busy.returncode == 1
        assert "another process is delivering to it" in busy.stdout
        run.go_on()
        assert run.result()["complete"]
        assert second.wait(60) == EXIT_CODES["done"]
    assert_all_there(tmp_path / "run")
    fault_report.add("delivery process started twice")


@pytest.mark.slow
def test_closing_waits_for_the_delivery_of_an_attempt_that_crashed(tmp_path, installed, fault_report):
    folder, last = tmp_path / "run", STEPS - 1
    with training(folder, ["odd"], steps=51, pauses=[50], environment=installed) as crashed:
        crashed.wait_for_step(50)
        until(lambda: delivered(folder) == emitted_by(51).total())
        (old,) = crashed.delivery_processes()
        old.suspend()  # it holds the sink and is slow
        crashed.process.kill()
        crashed.end()
        before: dict[str, Any] = {"resume": True, "emitted_before": emitted_by(51).total()}
        with training(folder, ["odd"], steps=STEPS, pauses=[last], environment=installed, **before) as run:
            run.wait_for_step(last)
            run.go_on()
            until(lambda: not is_locked(rank_folder(folder, 0) / WRITER_LOCK))
            try:
                with pytest.raises(AssertionError, match=r"no '\{' within"):
                    run.wait_for_line("{", timeout_s=1.0)
            finally:
                old.resume()
            assert run.result()["complete"]
    shown = Counter(kind for kind, _, _ in odd_sinks.read_back(folder / "odd.jsonl"))
    assert shown == emitted_by(51) + emitted_by(STEPS)
    fault_report.add("an earlier attempt's delivery still drains when the run closes")


@pytest.mark.slow
def test_a_sink_that_crashes_its_process_is_told_from_what_it_crashes_on(tmp_path, installed, fault_report):
    """A crash that comes back is bisected like a refusal; one that does not costs nothing."""
    sink = {"type": "odd", "crash_on": "notes", "times": 2}
    with training(tmp_path / "run", [sink], steps=STEPS, environment=installed) as run:
        assert run.result()["complete"]
    assert misbehaved(tmp_path / "run") > 2
    assert_all_there(tmp_path / "run")
    fault_report.add("the SDK crashes its process (abort)", runs=2)


@pytest.mark.parametrize(
    "method",
    ["write", *(pytest.param(method, marks=pytest.mark.slow) for method in ("open", "flush", "finish", "close"))],
)
def test_a_sink_that_hangs_once_is_given_up_and_opened_again(tmp_path, installed, fault_report, method):
    sink = {"type": "odd", "hang_in": method, "times": 1, "deadline_s": 0.5}
    with training(tmp_path / "run", [sink], steps=STEPS, environment=installed) as run:
        assert run.result()["complete"]
    assert misbehaved(tmp_path / "run") >= 1
    assert_all_there(tmp_path / "run")
    fault_report.add(f"the sink hangs in {method}()")


@pytest.mark.slow
def test_a_sink_that_never_closes_is_left_when_it_has_everything(tmp_path, installed):
    sink = {"type": "odd", "hang_in": "close", "deadline_s": 0.5}
    with training(tmp_path / "run", [sink], steps=STEPS, environment=installed) as run:
        assert run.result()["complete"]
    assert misbehaved(tmp_path / "run") >= 1
    assert_all_there(tmp_path / "run")


@pytest.mark.slow
def test_a_sink_that_never_finishes_is_given_up_when_the_run_has_ended(tmp_path, installed):
    sink = {"type": "odd", "hang_in": "finish", "deadline_s": 0.5}
    with training(tmp_path / "run", [sink], steps=STEPS, environment=installed) as run:
        run.result()
        assert run.delivery_processes() == []
    account = accounts(tmp_path / "run")["odd"]
    assert (account.pending, account.state) == (0, "quarantined")


@pytest.mark.slow
def test_a_sink_that_hangs_for_ever_holds_up_nobody_else(tmp_path, installed, fault_report):
    sinks = [{"type": "odd", "hang_in": "write", "deadline_s": 0.5}, "local"]
    with training(tmp_path / "run", sinks, steps=STEPS, environment=installed, close_timeout=5) as run:
        found = run.result()
    assert not found["complete"]
    assert found["sinks"]["local"]["pending"] == 0
    assert found["sinks"]["odd"]["pending"] == emitted_by(STEPS).total()
    assert "did not return from write" in accounts(tmp_path / "run")["odd"].error
    fault_report.add("one sink hangs for ever, another one works")


@pytest.mark.slow
def test_what_a_sink_refuses_is_isolated_and_counted(tmp_path, installed, fault_report):
    sink = {"type": "odd", "refuse": "accuracy@60"}
    with training(tmp_path / "run", [sink], steps=STEPS, environment=installed) as run:
        assert run.result()["complete"]
    assert accounts(tmp_path / "run")["odd"].failed == {"refused": 1}
    assert_all_there(tmp_path / "run", refused=Counter(scalar=1))
    fault_report.add("an artifact that the tracker refuses (counted as refused)", lost=1)
