"""The MLflow sink's options: what the user gave, else their active run, the environment, and our defaults."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracker_adapters.sink import SinkConfigError, checked_options
from tracker_adapters.sinks.mlflow.sqlite_uri import sqlite_path, sqlite_uri

DEFAULT_EXPERIMENT = "stepscope"
_ALLOWED = dict.fromkeys(("target", "experiment", "experiment_id", "run_name", "run_id", "artifact_location"), str)
_FROM_ENVIRONMENT = {
    "experiment": "MLFLOW_EXPERIMENT_NAME",
    "experiment_id": "MLFLOW_EXPERIMENT_ID",
    "run_id": "MLFLOW_RUN_ID",
}


def resolve_options(options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
    """Returns the sink's keywords; see ``MLflowSink.resolve``."""
    found = checked_options("mlflow", options, _ALLOWED)
    joined = _active_run()
    if joined and not found.keys() & {"experiment", "experiment_id", "run_id"}:
        uri, run_id = joined
        if _absolute(found.get("target", uri)) == _absolute(uri):
            found |= {"target": uri, "run_id": run_id}
    if "target" not in found:
        found["target"] = os.environ.get("MLFLOW_TRACKING_URI") or sqlite_uri(run_folder.parent / "mlflow.db")
    if not found.keys() & {"experiment", "experiment_id", "run_id"}:
        found |= {name: os.environ[key] for name, key in _FROM_ENVIRONMENT.items() if os.environ.get(key)}
    found["target"] = _checked_target(found["target"])
    if not found.keys() & {"experiment", "experiment_id", "run_id"}:
        found["experiment"] = DEFAULT_EXPERIMENT
    if "artifact_location" not in found and (folder := _folder_of_artifacts(found["target"], run_folder)):
        found["artifact_location"] = folder.as_uri()
    elif "://" not in found.get("artifact_location", "://"):
        found["artifact_location"] = Path(found["artifact_location"]).absolute().as_uri()
    return found


def _active_run() -> tuple[str, str] | None:
    """The tracking URI and id of the run that the user has active in this thread; never imports MLflow."""
    mlflow: Any = sys.modules.get("mlflow")
    if not hasattr(mlflow, "active_run") or (run := mlflow.active_run()) is None:
        return None
    return str(mlflow.get_tracking_uri()), str(run.info.run_id)


def _checked_target(target: str) -> str:
    scheme, separator, _ = target.partition(":")
    if scheme in ("databricks", "databricks-uc"):
        return target
    if not separator or "://" not in target or scheme == "file":
        # MLflow refuses its file store by default, and that store would double every point that is sent again.
        raise SinkConfigError(
            f"sink 'mlflow': target is {target!r}; expected a tracking URI such as "
            "sqlite:////home/me/mlflow.db or http://127.0.0.1:5000 (a folder of files is not supported)"
        )
    return _absolute(target)


def _absolute(target: str) -> str:
    path = sqlite_path(target)
    if path is None or path.is_absolute():
        return target
    _, mark, query = target.partition("?")
    return sqlite_uri(path.absolute()) + mark + query


def _folder_of_artifacts(target: str, run_folder: Path) -> Path | None:
    """Where the artifacts of an experiment that we create go; None leaves it to the tracking server.

    Without it MLflow would put them below the working directory of whichever process comes first.
    """
    if (path := sqlite_path(target)) is not None:
        return path.parent / "mlartifacts"
    if target.startswith(("http://", "https://", "databricks")):
        return None
    return run_folder.parent / "mlartifacts"
