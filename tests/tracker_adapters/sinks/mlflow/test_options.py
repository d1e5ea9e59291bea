"""Which MLflow run the options lead to."""

from pathlib import Path

import pytest
from tracker_adapters.errors import SinkConfigError
from tracker_adapters.sinks.mlflow import MLflowSink


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("TRACKING_URI", "EXPERIMENT_NAME", "EXPERIMENT_ID", "RUN_ID"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)


def test_the_default_lies_beside_the_run():
    assert MLflowSink.resolve({}, Path("/work here/runs/exp1")) == {
        "target": "sqlite:////work here/runs/mlflow.db",
        "experiment": "stepscope",
        "artifact_location": "file:///work%20here/runs/mlartifacts",
    }


def test_the_environment_comes_before_the_default(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    found = {"target": "http://127.0.0.1:5000", "experiment": "mine"}
    assert MLflowSink.resolve({}, Path("/runs/exp1")) == found


def test_arguments_come_before_the_environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123")
    found = MLflowSink.resolve({"target": "sqlite:////x/y.db", "experiment": "other", "run_name": "r"}, Path("/runs/e"))
    assert found == {
        "target": "sqlite:////x/y.db",
        "experiment": "other",
        "run_name": "r",
        "artifact_location": "file:///x/mlartifacts",
    }


def test_a_run_id_or_experiment_id_of_the_environment_is_taken(monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "7")
    assert MLflowSink.resolve({}, Path("/runs/e"))["experiment_id"] == "7"
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123")
    assert MLflowSink.resolve({}, Path("/runs/e"))["run_id"] == "0123"


def test_relative_places_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = MLflowSink.resolve({"target": "sqlite:///x.db", "artifact_location": "files"}, Path("/runs/e"))
    assert found["target"] == f"sqlite:///{tmp_path}/x.db"
    assert found["artifact_location"] == (tmp_path / "files").as_uri()


@pytest.mark.parametrize("target", ["mlruns", "file:///x/mlruns", "/x/mlruns", ""])
def test_a_folder_of_files_is_refused_by_name(target):
    with pytest.raises(SinkConfigError, match=f"target is '{target}'; expected a tracking URI"):
        MLflowSink.resolve({"target": target}, Path("/runs/e"))


def test_databricks_is_left_to_mlflow():
    assert MLflowSink.resolve({"target": "databricks://profile"}, Path("/runs/e")) == {
        "target": "databricks://profile",
        "experiment": "stepscope",
    }


def test_how_to_look():
    assert MLflowSink.look({"target": "http://127.0.0.1:5000"}) == "http://127.0.0.1:5000"
    assert MLflowSink.look({"target": "sqlite:////a b/mlflow.db"}) == (
        "mlflow ui --host 127.0.0.1 --backend-store-uri 'sqlite:////a b/mlflow.db'"
    )
