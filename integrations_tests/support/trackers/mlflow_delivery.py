"""Delivers to MLflow in this process, and finds what came of it."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run
from readback_mlflow import our_runs
from shared import made_once
from tracker_adapters.artifacts import Artifact, RunInfo, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.sinks.mlflow.database import prepare_database
from tracker_adapters.testing.contract import INFO, TIME_NS


def with_database(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options after laying an empty tracking database where they lead: MLflow takes seconds to make one."""
    path = Path(options["target"].removeprefix("sqlite:///"))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_empty_database(), path)
    return options


def _empty_database() -> Path:
    return made_once("mlflow", _make_database) / "mlflow.db"


def _make_database(folder: Path) -> None:
    path = folder / "mlflow.db"
    prepare_database(path)
    with closing(sqlite3.connect(path)) as database:  # else its own experiment has its artifacts where the tests run
        database.execute("update experiments set artifact_location = ?", (str(folder / "mlartifacts"),))
        database.commit()


def opened(options: dict[str, Any], token: bytes | None = None, info: RunInfo = INFO) -> MLflowSink:
    sink = MLflowSink(**options)
    sink.open(info, token)
    return sink


def deliver(options: dict[str, Any], artifacts: Sequence[Artifact], info: RunInfo = INFO) -> bytes:
    sink = opened(options, info=info)
    sink.write(Batch.of(artifacts))
    token = sink.flush()
    sink.finish("finished")
    sink.close()
    return token


def the_run(options: dict[str, Any]) -> Run:
    [run] = our_runs(options)
    return run


def client_of(options: dict[str, Any]) -> MlflowClient:
    return MlflowClient(tracking_uri=options["target"])


def scalars(name: str, steps: Sequence[int], *, time_ns: int = TIME_NS) -> list[Artifact]:
    return [Scalar(name=name, value=step / 8, step=step, time_ns=time_ns + step * 1_000_000) for step in steps]
