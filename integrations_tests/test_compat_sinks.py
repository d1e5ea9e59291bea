"""What a script logs by W&B's calls, read back from W&B's own files and from TensorBoard's."""

import json

import numpy as np
import readback_wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from stepscope.compat import wandb


def test_offline_the_calls_reach_w_and_b(tmp_path):
    run = wandb.init(dir=tmp_path, project="digits", id="abc", name="first", mode="offline", config={"lr": 0.1})
    for step in range(3):
        wandb.log({"train": {"loss": 1 / (step + 1)}}, step=10 * step)
    wandb.log({"picture": wandb.Image(np.zeros((4, 4), np.uint8))})
    wandb.config.update({"epochs": 3})
    wandb.finish()
    target = {"target": str(run.stepscope_run.path)}
    (folder,) = readback_wandb.run_folders(target)
    described = [one.run for one in readback_wandb.records(folder) if one.WhichOneof("record_type") == "run"]
    assert (described[0].run_id, described[0].project, described[0].display_name) == ("abc", "digits", "first")
    assert {item.key: json.loads(item.value_json) for item in described[-1].config.update} == {"lr": 0.1, "epochs": 3}
    shown = readback_wandb.read_back(target)
    losses = [(one.step, one.value) for one in shown if one.name == "train/loss"]
    assert losses == [(0, 1.0), (10, 0.5), (20, 1 / 3)]
    assert [one.kind for one in shown if one.name == "picture"] == ["image"]


def test_sinks_of_the_environment_take_precedence(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SINKS", "tensorboard")
    with wandb.init(dir=tmp_path, mode="offline") as run:
        run.log({"loss": 0.5})
    assert [sink.type for sink in run.stepscope_run.sinks] == ["tensorboard"]
    events = EventAccumulator(str(run.stepscope_run.path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(0, 0.5)]
