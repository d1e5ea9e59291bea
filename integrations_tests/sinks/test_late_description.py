"""A configuration, a name and tags that a run gets after its start, by each tracker's own reader."""

import json
import platform

import pytest
import readback_wandb
from all_sinks import prepared
from mlflow_delivery import client_of
from readback_mlflow import our_runs
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tracker_adapters.sinks.mlflow import MLflowSink

import stepscope

ENVIRONMENT = {"commit": "0123abc", "branch": "main", "packages": "numpy==2.1\ntorch==2.7"}
SINKS = ["local", "tensorboard", "wandb", "mlflow"]


@pytest.mark.slow
def test_every_tracker_shows_what_a_run_says_of_itself_later(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # in no repository
    folder = prepared(tmp_path / "run")
    with stepscope.open_run(folder, sinks=SINKS, config={"lr": 0.1, "seed": 1}, tags=["first"]) as run:
        run.scalar("loss", 1.0, step=0)
        assert run.flush(60)  # every sink is open, with the description of the start
        run.describe(name="renamed", config={"epochs": 3}, tags=["first", "second"])
        run.scalar("loss", 0.5, step=1)
        assert run.flush(60)
        run.describe(config={"late": True}, environment=ENVIRONMENT)

    with stepscope.read_run(folder) as record:
        info = record.info
        assert info.config == {"lr": 0.1, "seed": 1, "epochs": 3, "late": True}
        assert (info.name, info.tags) == ("renamed", ("first", "second"))

    assert json.loads((folder / "local" / "run_info.json").read_text())["config"] == dict(info.config)

    local = json.loads((folder / "local" / "run_info.json").read_text())["environment"]
    assert ENVIRONMENT.items() <= local.items()

    events = EventAccumulator(str(folder)).Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert {name: value.number_value for name, value in start.hparams.items() if name != "late"} == {
        "lr": 0.1,
        "seed": 1,
        "epochs": 3,
    }
    assert start.hparams["late"].bool_value
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(0, 1.0), (1, 0.5)]

    (wandb_folder,) = readback_wandb.run_folders({"target": str(folder)})
    described = [one.run for one in readback_wandb.records(wandb_folder) if one.WhichOneof("record_type") == "run"]
    assert {item.key: json.loads(item.value_json) for item in described[-1].config.update} == dict(info.config)
    assert (described[-1].display_name, list(described[-1].tags)) == ("renamed", ["first", "second"])

    options = MLflowSink.resolve({}, folder)
    assert (described[-1].git.commit, described[-1].host) == ("0123abc", platform.node())

    (mlflow_run,) = our_runs(options)
    assert mlflow_run.data.params == {"lr": "0.1", "seed": "1", "epochs": "3", "late": "True"}
    tags = client_of(options).get_run(mlflow_run.info.run_id).data.tags
    assert (tags["mlflow.source.git.commit"], tags["stepscope.environment.branch"]) == ("0123abc", "main")
    assert "stepscope.environment.packages" not in tags
    assert (tags["stepscope.tag.second"], mlflow_run.info.run_name) == ("second", "renamed")
