"""A training that is killed keeps what it stored, and its trackers get all of it exactly once."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import readback_local
import readback_tensorboard
from fault_training import NAMES, emitted_by
from faults import FaultReport, accounts, program, stored_counts, training, until

import stepscope

pytestmark = pytest.mark.fault

SINKS = ("local", "tensorboard")
STEPS = 100_000  # never reached
COMMITTED_AFTER_S = 0.1
OVERLOADED_S = 0.5
"""What a process needs that gets no processor for a while."""

NATIVE_TENSORBOARD = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
for step in range(5000):
    writer.add_scalar("loss", 0.5, step)
print("emitted")
sys.stdin.readline()
"""


@dataclass(frozen=True)
class Killed:
    """What was found after one kill; ``lost`` counts steps that were emitted 100 ms before and are not stored."""

    lost: int
    duplicated: int
    recovery_s: float


def kill_once(folder: Path, seed: int) -> Killed:
    """Kills a training at a random moment, and checks what its orphan delivers and that the run can be resumed."""
    moment = random.Random(seed)
    step = moment.randrange(200)
    with training(folder, SINKS, steps=STEPS) as run:
        run.wait_for_step(step)
        children = run.delivery_processes()
        committed_after = OVERLOADED_S if os.getloadavg()[0] > (os.cpu_count() or 1) + 2 else COMMITTED_AFTER_S
        threading.Event().wait(committed_after + moment.uniform(0, 0.1))
        run.process.kill()
        run.end()
        recovery = until(lambda: not any(child.is_running() for child in children), 120)
    with stepscope.read_run(folder) as record:
        assert record.info.status == "failed"
        loss = record.scalars("loss")
    last = len(loss) - 1
    assert loss.steps.tolist() == list(range(last + 1))
    stored = stored_counts(folder)
    # The last step may be there in part: each artifact is stored or is not.
    assert emitted_by(last).total() < stored.total() <= emitted_by(last + 1).total()
    found = accounts(folder)
    assert {name: (account.delivered, account.pending, account.failed) for name, account in found.items()} == {
        name: (stored.total(), 0, {}) for name in SINKS
    }
    duplicated = shown_twice(folder, last)
    resume(folder, last)
    return Killed(max(0, step - last), duplicated, recovery)


def shown_twice(folder: Path, last: int) -> int:
    """Returns how many scalars a tracker shows more than once; asserts that each shows every step of the loss."""
    local = [(shown.name, shown.step) for shown in readback_local.read_back({"target": folder / "local"})]
    tags = readback_tensorboard.read_with_data_server(folder / "tensorboard")
    for steps in (
        [step for name, step in local if name == "loss"],
        [step for step, _, _ in tags[("scalars", "loss")].points],
    ):
        assert steps == list(range(last + 1))
    points = [(name, point[0]) for name in NAMES for point in tags[("scalars", name)].points]
    return len(local) - len(set(local)) + len(points) - len(set(points))


def resume(folder: Path, last: int) -> None:
    """Goes on in a killed run, ten steps before its end."""
    before = stored_counts(folder).total()
    first = max(0, last - 10)
    with stepscope.open_run(folder, sinks=["local"], resume=True) as run:
        assert run.attempt == 2
        for step in range(first, last + 5):
            run.scalar("loss", -1.0, step=step)
        assert run.close(60)
    with stepscope.read_run(folder) as record:
        series = record.scalars("loss")
    assert series.steps.tolist() == list(range(last + 5))
    assert series.values[first:].tolist() == [-1.0] * (last + 5 - first)
    assert accounts(folder)["local"].delivered == before + last + 5 - first


def test_an_undisturbed_training_is_accounted_for(tmp_path: Path) -> None:
    with training(tmp_path / "run", ["local"], steps=100) as run:
        found = run.result()
    assert found["complete"]
    assert stored_counts(tmp_path / "run") == emitted_by(100)
    assert found["emitted"] == found["stored"] == emitted_by(100).total()
    assert accounts(tmp_path / "run")["local"].delivered == emitted_by(100).total()


def test_a_training_that_is_killed_is_delivered_by_its_orphan_and_resumed(tmp_path: Path) -> None:
    killed = kill_once(tmp_path / "run", seed=0)
    assert (killed.lost, killed.duplicated) == (0, 0)


def test_a_training_killed_with_all_sinks_is_delivered_to_each(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with training(folder, ["local", "tensorboard", "wandb", "mlflow"], steps=1000, pauses=[300]) as run:
        run.wait_for_step(300)
        children = run.delivery_processes()
        until(lambda: stored_counts(folder) == emitted_by(301))
        run.process.kill()
        run.end()
        until(lambda: not any(child.is_running() for child in children), 120)
    wanted = emitted_by(301).total()
    assert {account.delivered + sum(account.failed.values()) for account in accounts(folder).values()} == {wanted}


@pytest.mark.slow
def test_fifty_kills_at_random_moments(tmp_path: Path, fault_report: FaultReport) -> None:
    seeds = range(1, 51)
    with ThreadPoolExecutor(2) as pool:
        kills = list(pool.map(lambda seed: kill_once(tmp_path / f"run{seed}", seed), seeds))
    lost, duplicated = sum(kill.lost for kill in kills), sum(kill.duplicated for kill in kills)
    with program(tmp_path / "native", NATIVE_TENSORBOARD) as native:
        native.wait_for_line("emitted")
        native.process.kill()
        native.end()
    shown = readback_tensorboard.read_with_data_server(tmp_path / "native").get(("scalars", "loss"))
    missing = 5000 - (len(shown.points) if shown else 0)
    fault_report.add(
        "kill -9 of the training at random moments",
        runs=len(kills),
        lost=lost,
        duplicated=duplicated,
        recovery_s=max(kill.recovery_s for kill in kills),
        native=f"SummaryWriter lost {missing} of 5000 scalars",
    )
    assert (lost, duplicated) == (0, 0)
