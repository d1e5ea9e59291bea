"""A run that is opened again at an earlier step: W&B shows each attempt that went back as a run of its own."""

import numpy as np
import pytest
from readback_wandb import history, run_folders, run_of
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.wandb import WandbSink
from wandb_runs import carried

import stepscope

KINDS = ("scalar", "histogram", "image")


def emit(run, kind, step):
    match kind:
        case "scalar":
            run.scalar("x", step / 2, step=step)
        case "histogram":
            run.histogram("x", np.full(8, float(step)), step=step)
        case _:
            run.image("x", np.full((4, 4), step, np.uint8), step=step, layout="HW")


def train(folder, kinds, steps, *, resume):
    run = stepscope.open_run(folder, sinks=["wandb"], resume=resume, delivery="thread")  # a process takes half a second
    run.text("started", "the same at each start", step=0)
    for step in steps:
        for kind in kinds:
            emit(run, kind, step)
    assert run.close(60)


def steps_by_run(folder):
    """Returns each W&B run's steps, of the artifacts named x."""
    found: dict[str, list[int]] = {}
    for one in run_folders({"target": str(folder)}):
        (suffix,) = run_of(one).display_name.removeprefix(folder.name).split() or [""]
        rows = [row["step"] for row in history(one) if any(key.startswith("x") for key in row)]
        found.setdefault(suffix, []).extend(rows)
    return found


@pytest.mark.parametrize(
    "kinds",
    [*(pytest.param((kind,), id=kind, marks=pytest.mark.slow) for kind in KINDS), pytest.param(KINDS, id="all")],
)
def test_each_attempt_that_goes_back_is_a_run(tmp_path, kinds):
    folder = tmp_path / "exp"
    train(folder, kinds, range(6), resume=False)
    train(folder, kinds, range(6, 8), resume=True)  # goes on
    train(folder, kinds, range(7, 9), resume=True)  # says the last step again
    train(folder, kinds, range(2, 5), resume=True)  # goes back
    shown = {run: sorted(set(steps)) for run, steps in steps_by_run(folder).items()}
    assert shown == {"": list(range(8)), "(a3)": list(range(7, 9)), "(a4)": list(range(2, 5))}
    assert run_folders({"target": str(folder)}, superseded=True) == []


@pytest.mark.parametrize("base", ["contract", "20261130-031139-a1234567"])  # what is random may look like an attempt
def test_an_attempt_is_compared_with_the_one_before_it_alone(tmp_path, base):
    options = WandbSink.resolve({"run_id": base}, tmp_path)
    token = None
    for attempt, points in enumerate(([("loss", 9), ("val", 9)], [("loss", 7)], [("loss", 8), ("val", 8)]), start=1):
        scalars = [Scalar(name=name, value=0.5, step=step) for name, step in points]
        token = carried(options, Batch.of(scalars, attempt=attempt), token)
    shown = {run_of(folder).run_id: [row["step"] for row in history(folder)] for folder in run_folders(options)}
    assert shown == {base: [9], f"{base}-a2": [7, 8]}
