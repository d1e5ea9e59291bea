"""Finding, making and describing the MLflow runs that belong to one of our runs."""

import functools
from typing import Any

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.sink import SinkError, StartOver
from tracker_adapters.sinks.mlflow.description import (
    MAX_RUN_NAME_LENGTH,
    origin_tags,
    params_of,
    shortened,
    tags_of,
)
from tracker_adapters.sinks.mlflow.entries import Entry, log_batch, send_entries, tag_entries

RUN_ID_TAG = "stepscope.run_id"
ATTEMPT_TAG = "stepscope.attempt"
_PARENT_TAG = "mlflow.parentRunId"


class Runs:
    """The MLflow runs of one of our runs, through one client.

    Methods that find or make a run return MLflow's entity, with its tags and params as they stand.
    """

    def __init__(self, client: Any, info: RunInfo) -> None:
        self._client = client
        self._info = info

    def reopen(self, run_id: str, *, owned: bool) -> Any:
        """Returns a run of an earlier opening; ours is marked as running again.

        Raises:
            StartOver: When it was deleted.
        """
        if (run := self._find(run_id)) is None:
            raise StartOver(f"MLflow run {run_id} is gone")
        if owned:
            self._mark_running(run)
        return run

    def join(self, run_id: str) -> Any:
        """Returns the user's run.

        Raises:
            SinkError: When it was deleted.
        """
        if (run := self._find(run_id)) is None:
            raise SinkError(f"MLflow run {run_id!r} does not exist or was deleted; expected a run to log into")
        return run

    def find_or_create(self, experiment_id: str, name: str, attempt: int = 1, parent: str | None = None) -> Any:
        """Returns the run that carries our id and this attempt; creates it where a kill left none.

        It is found by its tags, which are part of its creation: so it is made once, also when the answer is lost.
        """
        tags = {RUN_ID_TAG: self._info.id, ATTEMPT_TAG: str(attempt)}
        wanted = " and ".join(f'tags."{key}" = "{value}"' for key, value in tags.items())
        for run in self._client.search_runs([experiment_id], wanted, max_results=1):
            self._mark_running(run)
            return run
        if parent:
            tags[_PARENT_TAG] = parent
        return self._client.create_run(
            experiment_id,
            start_time=self._info.created_ns // 1_000_000,
            tags=tags,
            run_name=shortened(name, MAX_RUN_NAME_LENGTH),
        )

    def child_for(self, run_id: str, attempt: int) -> Any:
        """Returns the child run of an attempt; creates it where a kill left none."""
        parent = self._client.get_run(run_id)
        name = f"{parent.info.run_name} (attempt {attempt})"
        return self.find_or_create(parent.info.experiment_id, name, attempt, parent=run_id)

    def end(self, run_id: str, status: RunStatus, end_ms: int) -> None:
        """Sets how a run ended, at ``end_ms`` after the epoch, or now when that is 0."""
        if status != "running":
            self._client.set_terminated(run_id, status.upper(), end_ms or None)

    def rename(self, run: Any, name: str) -> None:
        """Gives a run another name, unless it has that."""
        if run.info.run_name != (name := shortened(name, MAX_RUN_NAME_LENGTH)):
            self._client.update_run(run.info.run_id, name=name)

    def describe(self, run: Any) -> None:
        """Sets our tags, and those params of the configuration that are not there yet: params cannot change."""
        there = run.data
        origin = {key: value for key, value in origin_tags(self._info).items() if key not in there.tags}
        tags = {RUN_ID_TAG: self._info.id} | origin | tags_of(self._info)
        entries = tag_entries({key: value for key, value in tags.items() if there.tags.get(key) != value})
        params = params_of(self._info).items()
        entries += [Entry("param", key, value) for key, value in params if key not in there.params]
        send_entries(entries, functools.partial(log_batch, self._client, run.info.run_id))

    def experiment(self, name: str, artifact_location: str | None) -> str:
        """Returns the id of an experiment; creates it where there is none.

        Raises:
            SinkError: When it was deleted; restoring it is the user's decision.
        """
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=artifact_location))
            except MlflowException as error:
                # Another run of a sweep made it in this moment.
                if (found := self._client.get_experiment_by_name(name)) is None:
                    raise error from None
        if found.lifecycle_stage != "active":
            raise SinkError(f"MLflow experiment {name!r} was deleted; expected an active one: restore or rename it")
        return str(found.experiment_id)

    def _mark_running(self, run: Any) -> None:
        if run.info.status != "RUNNING":
            self._client.update_run(run.info.run_id, status="RUNNING")

    def _find(self, run_id: str) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None
