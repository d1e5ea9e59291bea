"""Finding, making and describing the MLflow runs that belong to one of our runs."""

from __future__ import annotations

import logging
import os
from typing import Any

from tracker_adapters.artifacts import Cell, RunInfo, RunStatus
from tracker_adapters.sink import SinkError, StartOver
from tracker_adapters.sinks.mlflow.names import metric_key

RUN_ID_TAG = "stepscope.run_id"
ATTEMPT_TAG = "stepscope.attempt"
INFINITY_TAG = "stepscope.infinity"
INFINITY_RULE = "metric values of ±1.7976931348623157e+308 stand for ±infinity"
_PARENT_TAG = "mlflow.parentRunId"
_MAX_PARAM_LENGTH = 6000
_MAX_TAG_LENGTH = 8000
_ENVIRONMENT = {
    # Delivery retries by itself; MLflow's defaults (120 s, 7 retries) would hold it for minutes.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def connect(target: str) -> Any:
    """Imports MLflow, silent and impatient unless the environment says otherwise, and returns an MlflowClient."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "matplotlib"):
        # Without any handler Python itself prints warnings to stderr.
        logging.getLogger(name).addHandler(logging.NullHandler())
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=target)


class Runs:
    """The MLflow runs of one of our runs, through one client."""

    def __init__(self, client: Any, info: RunInfo) -> None:
        self._client = client
        self._info = info

    def reopen(self, run_id: str, *, owned: bool) -> None:
        """Checks that a run of an earlier opening still stands, and marks ours as running again.

        Raises:
            StartOver: When it was deleted.
        """
        if (run := self._find(run_id)) is None:
            raise StartOver(f"MLflow run {run_id} is gone")
        if owned and run.info.status != "RUNNING":
            self._client.update_run(run_id, status="RUNNING")

    def join(self, run_id: str) -> None:
        """Checks that the user's run stands.

        Raises:
            SinkError: When it was deleted.
        """
        if self._find(run_id) is None:
            raise SinkError(f"MLflow run {run_id!r} does not exist or was deleted; expected a run to log into")

    def find_or_create(self, experiment_id: str, name: str, attempt: int = 1, parent: str | None = None) -> str:
        """Returns the run that carries our id and this attempt; creates it where a kill left none."""
        tags = {RUN_ID_TAG: self._info.id, ATTEMPT_TAG: str(attempt)}
        wanted = " and ".join(f'tags."{key}" = "{value}"' for key, value in tags.items())
        for run in self._client.search_runs([experiment_id], wanted, max_results=1):
            self.reopen(run.info.run_id, owned=True)
            return str(run.info.run_id)
        if parent:
            tags[_PARENT_TAG] = parent
        run = self._client.create_run(
            experiment_id, start_time=self._info.created_ns // 1_000_000, tags=tags, run_name=name
        )
        return str(run.info.run_id)

    def child_for(self, run_id: str, attempt: int) -> str:
        """Returns the child run of an attempt; creates it where a kill left none."""
        parent = self._client.get_run(run_id)
        name = f"{parent.info.run_name} (attempt {attempt})"
        return self.find_or_create(parent.info.experiment_id, name, attempt, parent=run_id)

    def end(self, run_id: str, status: RunStatus, end_ms: int) -> None:
        """Sets how a run ended, at ``end_ms`` after the epoch, or now when that is 0."""
        if status != "running":
            self._client.set_terminated(run_id, status.upper(), end_ms or None)

    def describe(self, run_id: str) -> None:
        """Sets our tags, and those params of the configuration that are not there yet: params cannot change."""
        from mlflow.entities import Param, RunTag

        there = self._client.get_run(run_id).data
        tags = {RUN_ID_TAG: self._info.id, INFINITY_TAG: INFINITY_RULE}
        tags |= {metric_key(f"stepscope.tag.{tag}"): shortened(tag, _MAX_TAG_LENGTH) for tag in self._info.tags}
        params = {metric_key(name): _param(value) for name, value in self._info.flat_config().items() if name}
        self._client.log_batch(
            run_id,
            params=[Param(key, value) for key, value in params.items() if key not in there.params],
            tags=[RunTag(key, value) for key, value in tags.items() if there.tags.get(key) != value],
            synchronous=True,
        )

    def experiment(self, name: str, artifact_location: str | None) -> str:
        """Returns the id of an experiment; creates it where there is none.

        Raises:
            SinkError: When it was deleted; restoring it is the user's decision.
        """
        found = self._client.get_experiment_by_name(name)
        if found is None:
            return str(self._client.create_experiment(name, artifact_location=artifact_location))
        if found.lifecycle_stage != "active":
            raise SinkError(f"MLflow experiment {name!r} was deleted; expected an active one: restore or rename it")
        return str(found.experiment_id)

    def _find(self, run_id: str) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None


def shortened(text: str, limit: int) -> str:
    """Returns ``text``, cut to ``limit`` characters with a note of its length where it is longer."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note


def _param(value: Cell) -> str:
    return shortened(str(value), _MAX_PARAM_LENGTH)
