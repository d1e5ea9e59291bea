"""A training that is killed keeps what it stored, and its trackers get all of it exactly once."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import readback_tensorboard
from all_sinks import SINKS, assert_each_shows_everything_once, delivered_by_each, prepared
from fault_training import emitted_by
from faults import WHOLE, accounts, program, stored_counts, training
from mlflow import MlflowClient
from native_wandb import PAUSE_AFTER, NativeClient
from readback_wandb import history
from waiting import until

import stepscope

pytestmark = pytest.mark.fault

WITHOUT_MLFLOW = tuple(sink for sink in SINKS if sink != "mlflow")
"""Those whose packages do not take seconds to load."""
LATEST_STEP, STEPS_AFTER = 300, 200
"""A kill comes after a random step, and within so many more: there the training waits for it."""
COMMITTED_AFTER_S = 0.1
OVERLOADED_S = 0.5
"""What a process needs that gets no processor for a while."""

NATIVE = {
    "SummaryWriter": """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
for step in range(500):
    writer.add_scalar("loss", 0.5, step)
""",
    "mlflow": """
import mlflow
mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}/mlflow.db")
mlflow.start_run()
for step in range(500):
    mlflow.log_metric("loss", 0.5, step=step)
""",
}


@dataclass(frozen=True)
class Killed:
    """What was found after one kill; ``lost`` counts steps that were emitted 100 ms before and are not stored."""

    lost: int
    recovery_s: float


def kill_once(folder, seed, sinks=SINKS):
    """Kills a training at a random moment, and checks what its orphans deliver and that the run can be resumed."""
    moment = random.Random(seed)
    step, begun = moment.randrange(LATEST_STEP), moment.randrange(len(sinks) + 1)
    last_step = step + STEPS_AFTER
    with training(prepared(folder), sinks, steps=last_step + 1, pauses=[step, last_step]) as run:
        run.wait_for_step(step)
        children = run.delivery_processes()
        # So that a kill comes before the trackers' packages are loaded, while the first batches are written, or later.
        until(lambda: sum(map(bool, delivered_by_each(folder))) >= begun)
        committed_after = OVERLOADED_S if os.getloadavg()[0] > (os.cpu_count() or 1) + 2 else COMMITTED_AFTER_S
        threading.Event().wait(committed_after)
        run.go_on()
        threading.Event().wait(moment.uniform(0, 0.1))
        run.process.kill()
        run.end()
        recovery = until(lambda: not any(child.is_running() for child in children), 120)
    with stepscope.read_run(folder) as record:
        assert record.info.status == "failed"
        loss = record.scalars("loss")
    last = len(loss) - 1
    assert loss.steps.tolist() == list(range(last + 1))
    # The last step may be there in part: each artifact is stored or is not. While an image is encoded, what comes after
    # it is stored.
    stored, least, most = stored_counts(folder), emitted_by(last), emitted_by(last + 1)
    assert emitted_by(step)["image"] <= stored["image"] <= most["image"]
    assert least.total() - least["image"] < stored.total() - stored["image"] <= most.total() - most["image"]
    assert_each_shows_everything_once(folder, sinks)
    resume(folder, last)
    return Killed(max(0, step - last), recovery)


def resume(folder, last):
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


@pytest.mark.slow
def test_an_undisturbed_training_is_accounted_for(tmp_path):
    with training(tmp_path / "run", ["local"], steps=100) as run:
        found = run.result()
    assert found["complete"]
    assert stored_counts(tmp_path / "run") == emitted_by(100)
    assert found["emitted"] == found["stored"] == emitted_by(100).total()
    assert accounts(tmp_path / "run")["local"].delivered == emitted_by(100).total()


@pytest.mark.parametrize("sinks", [WITHOUT_MLFLOW, pytest.param(SINKS, marks=pytest.mark.slow)], ids=len)
def test_a_training_that_is_killed_is_delivered_by_its_orphans_and_resumed(tmp_path, sinks):
    assert kill_once(tmp_path / "run", 0, sinks).lost == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_at_random_moments(tmp_path, fault_report):
    """MLflow is on each fifth time, since its package takes seconds to load, and each time in a whole matrix."""
    with_mlflow = range(0, 50, 1 if WHOLE else 5)

    def kill(number):
        sinks = SINKS if number in with_mlflow else WITHOUT_MLFLOW
        return kill_once(tmp_path / f"run{number}" / "run", number + 1, sinks)

    with ThreadPoolExecutor(2) as pool:
        kills = list(pool.map(kill, range(50)))
    lost = sum(kill.lost for kill in kills)
    times = "" if WHOLE else f" (MLflow {len(with_mlflow)} times)"
    fault_report.add(
        f"all four sinks{times}: kill -9 of the training at random moments",
        runs=len(kills),
        lost=lost,
        recovery_s=max(kill.recovery_s for kill in kills),
        native=what_the_native_clients_lose(tmp_path / "native"),
    )
    assert lost == 0


def what_the_native_clients_lose(folder):
    """Kills each tracker's own client after it has logged 500 scalars; returns what its reader misses of them."""
    found = []
    for client, source in NATIVE.items():
        (at := folder / client).mkdir(parents=True)
        waiting = "\nprint('emitted')\nsys.stdin.readline()"
        with program(at, "import sys" + source + waiting) as native:
            native.wait_for_line("emitted")
            native.process.kill()
            native.end()
        if client == "mlflow":
            tracking = MlflowClient(tracking_uri=f"sqlite:///{at}/mlflow.db")
            (run,) = tracking.search_runs(["0"])
            shown = len(tracking.get_metric_history(run.info.run_id, "loss"))
        else:
            series = readback_tensorboard.read_with_data_server(at).get(("scalars", "loss"))
            shown = len(series.points) if series else 0
        found.append(f"{client} lost {500 - shown} of 500")
    with NativeClient(folder / "wandb") as client:
        client.process.kill()
        until(lambda: not client.service.is_running())
        logged, shown = PAUSE_AFTER + 1, len(history(next((client.folder / "wandb").glob("offline-run-*"))))
    return ", ".join([*found, f"wandb lost {logged - shown} of {logged}"])
