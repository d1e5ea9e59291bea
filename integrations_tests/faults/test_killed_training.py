"""A training that is killed keeps what it stored, and its trackers get all of it exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_training import emitted_by
from faults import FaultReport, accounts, stored_counts, training, until

pytestmark = pytest.mark.fault


def test_an_undisturbed_training_is_accounted_for(tmp_path: Path) -> None:
    with training(tmp_path / "run", ["local"], steps=100) as run:
        found = run.result()
    assert found["complete"]
    assert stored_counts(tmp_path / "run") == emitted_by(100)
    assert found["emitted"] == found["stored"] == emitted_by(100).total()
    assert accounts(tmp_path / "run")["local"].delivered == emitted_by(100).total()


def test_a_training_killed_in_the_middle_is_delivered_by_its_orphan(tmp_path: Path, fault_report: FaultReport) -> None:
    with training(tmp_path / "run", ["local"], steps=1000, pauses=[300]) as run:
        run.wait_for_step(300)
        children = run.delivery_processes()
        run.process.kill()
        run.process.wait(30)
        seconds = until(lambda: not any(child.is_running() for child in children))
    stored = stored_counts(tmp_path / "run")
    account = accounts(tmp_path / "run")["local"]
    assert (account.delivered, account.pending) == (stored.total(), 0)
    fault_report.add("kill -9 of the training", recovery_s=seconds)
