"""The MLflow sink: scalars as metrics, everything else as artifact files, one MLflow run for each run."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.redaction import redact
from tracker_adapters.sink import BASIC_KINDS, Batch, Report, StartOver, Unshown
from tracker_adapters.sinks.mlflow.connection import ReportingClient, connect, without_secrets
from tracker_adapters.sinks.mlflow.description import MAX_TAG_LENGTH, shortened
from tracker_adapters.sinks.mlflow.heat_maps import HeatMaps
from tracker_adapters.sinks.mlflow.index import Index, IndexEnd
from tracker_adapters.sinks.mlflow.metrics import Metrics
from tracker_adapters.sinks.mlflow.names import file_stem, metric_key
from tracker_adapters.sinks.mlflow.options import resolve_options
from tracker_adapters.sinks.mlflow.rewind import went_back
from tracker_adapters.sinks.mlflow.run_files import RunFiles
from tracker_adapters.sinks.mlflow.runs import Runs

_MAX_ALERT_TAG_LENGTH = 1000


@dataclass
class _State:
    """What travels in the token.

    ``root`` is the first MLflow run, ``run_id`` the one in use (a child after a rewind); ``owned`` are those
    that we made and will end. ``index_part`` and ``index_size`` say where the index ends. ``alerts`` counts by name;
    ``reports`` is what the description was made of, by scope.
    """

    root: str = ""
    run_id: str = ""
    owned: list[str] = field(default_factory=list)
    attempt: int = 0
    index_part: int = 0
    index_size: int = 0
    end_ms: int = 0
    alerts: dict[str, int] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True, repr=False, eq=False)
class MLflowSink:
    """Shows a run in MLflow; writing an artifact again changes nothing.

    Scalars become metrics under reversible keys (see ``names``). MLflow collapses points with the same key,
    step, time in milliseconds and value, and cannot hold infinity (see ``metrics``). Images, texts, alerts,
    tables, pages and files become artifact files (see ``files``); the last alert of each name and their number
    also become a tag. Of histograms, ``index/`` holds each one, and a heat map and a table a name show them.

    An attempt that goes back to an earlier step gets a child run, since MLflow cannot take points away.
    """

    kinds: ClassVar[frozenset[str]] = BASIC_KINDS | {"curve"}

    target: str
    experiment: str | None = None
    experiment_id: str | None = None
    run_name: str | None = None
    run_id: str | None = None
    artifact_location: str | None = None
    progressed: Callable[[], object] = field(default_factory=lambda: lambda: None, init=False)
    view_command: str = field(default="", init=False)

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes ``target``, ``experiment``, ``experiment_id``, ``run_name``, ``run_id``, ``artifact_location``.

        ``target`` is a tracking URI. What is not given comes from the MLflow run that the user has active in
        this thread, else from MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, MLFLOW_EXPERIMENT_ID and
        MLFLOW_RUN_ID, else it is ``sqlite:///<folder above the run>/mlflow.db``, with artifacts in
        ``mlartifacts`` beside it, and the experiment ``stepscope``. A run given by its id is joined: we log
        into it and never end or rename it. So is the active run, unless another target, experiment or run is
        asked for.

        Raises:
            SinkConfigError: For an unknown option, a wrong type, or a target that is a folder of files.
        """
        return resolve_options(options, run_folder)

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the address of a tracking server, or the command that starts one on this machine alone."""
        target = str(options["target"])
        if target.startswith(("http://", "https://")):
            return redact(target)
        target = redact(target)
        return f"mlflow ui --host 127.0.0.1 --backend-store-uri {shlex.quote(target)}"

    @without_secrets
    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Finds or creates the MLflow run, and sets its tags and params.

        Raises:
            StartOver: When the token's MLflow run was deleted, or another one is to be joined now.
            SinkError: When the run to join or the experiment was deleted, or a database cannot be reached.
            MissingPackageError: When MLflow is too old or cannot be imported.
        """
        self._client = ReportingClient(connect(self.target, self.progressed), self.target, self.progressed)
        self._runs = Runs(self._client, info)
        self._folder_in_joined_run = f"stepscope/{file_stem(info.id)}/"
        self._state = _State(**json.loads(token)) if token else _State()
        state = self._state
        if token:
            if self.run_id and self.run_id != state.root:
                raise StartOver(f"the MLflow run to log into is now {self.run_id}; it was {state.root}")
            run = self._runs.reopen(state.run_id, owned=state.run_id in state.owned)
        elif self.run_id:
            run = self._runs.join(self.run_id)
            state.root = state.run_id = self.run_id
        else:
            experiment_id = self.experiment_id
            if not experiment_id:
                experiment_id = self._runs.experiment(self.experiment or "", self.artifact_location)
            run = self._runs.find_or_create(experiment_id, self.run_name or info.name)
            state.root = state.run_id = str(run.info.run_id)
            state.owned.append(state.run_id)
        self._use_run(run)

    @without_secrets
    def write(self, batch: Batch) -> Unshown:
        """Sends the whole batch; MLflow can show every kind, so nothing is left over."""
        self._follow_attempt(batch)
        self._metrics.send(batch.scalars, self._tags(batch))
        if len(batch) > len(batch.scalars):
            self._write_files(batch)
        self._state.end_ms = max(self._state.end_ms, _end_ns(batch) // 1_000_000)
        return {}

    @without_secrets
    def flush(self) -> bytes:
        """Draws the heat maps that are due; everything else was sent by ``write``."""
        self._heat_maps.draw_due()
        return json.dumps(asdict(self._state)).encode()

    @without_secrets
    def describe(self, info: RunInfo) -> None:
        """Sets tags, and params that are not there yet; a param that is there keeps its value, as MLflow has it."""
        self._runs = Runs(self._client, info)
        run = self._client.get_run(self._state.run_id)
        if self._state.run_id == self._state.root and self._state.root in self._state.owned:
            self._runs.rename(run, self.run_name or info.name)
        self._runs.describe(run)

    @without_secrets
    def finish(self, status: RunStatus) -> None:
        """Ends the MLflow runs that we made, at the time of their last artifact, and draws every heat map."""
        for run_id in self._state.owned:
            self._runs.end(run_id, status, self._state.end_ms)
        self._heat_maps.draw_all()

    def close(self) -> None:
        """Does nothing: everything was sent, and there is nothing to release."""

    def _use_run(self, run: Any) -> None:
        self._runs.describe(run)
        state = self._state
        prefix = "" if state.run_id in state.owned else self._folder_in_joined_run
        self._files = RunFiles(self._client, run, prefix)
        self._metrics = Metrics(self._client, state.run_id)
        self._index = Index(self._files, IndexEnd(state.index_part, state.index_size))
        self._heat_maps = HeatMaps(self._files, self._index)

    def _write_files(self, batch: Batch) -> None:
        """Uploads what the index will name first, so that its lines lead to what is there."""
        self._heat_maps.add(batch.histograms.artifacts)
        with self._files.staged() as stage:
            lines = stage.add_batch(batch)
            stage.put(*self._index.add(batch.first_seq, lines))
        self._files.list_tables(stage.tables)
        self._state.index_part, self._state.index_size = self._index.end.part, self._index.end.size

    def _follow_attempt(self, batch: Batch) -> None:
        """Moves to a child run when a new attempt repeats steps that are already there."""
        state = self._state
        state.attempt = state.attempt or batch.attempt
        if batch.attempt <= state.attempt:
            return
        back = went_back(batch, self._metrics, self._index)
        if back is None:  # no series in common to tell by; a later batch may have one
            return
        state.attempt = batch.attempt
        if back:
            run = self._runs.child_for(state.run_id, batch.attempt)
            state.run_id = str(run.info.run_id)
            state.owned.append(state.run_id)
            state.alerts, state.reports = {}, {}
            state.index_part = state.index_size = 0
            self._use_run(run)

    def _tags(self, batch: Batch) -> dict[str, str]:
        tags = {"mlflow.loggedImages": "True"} if batch.images else {}  # MLflow shows its image grid where this is set
        for alert in batch.alerts.artifacts:
            count = self._state.alerts[alert.name] = self._state.alerts.get(alert.name, 0) + 1
            text = f"{count} so far; the last at step {alert.step}: {alert.level}: {alert.message}"
            text = shortened(text, _MAX_ALERT_TAG_LENGTH) + (f"\n{self.view_command}" if self.view_command else "")
            tags[metric_key(f"stepscope.alert.{alert.name}")] = text
        for artifact in batch.texts.artifacts:
            if (report := Report.of(artifact)) is not None:
                tags |= self._report_tags(report)
        return tags

    def _report_tags(self, report: Report) -> dict[str, str]:
        """The verdict as a tag, which is a column of MLflow's table, and the reports as the run's description.

        A description that somebody else wrote stays.
        """
        name = "stepscope.verdict" + (f".{report.scope}" if report.scope else "")
        tags = {metric_key(name): shortened(report.verdict, MAX_TAG_LENGTH)} if report.verdict else {}
        description = report.described(self._state.reports)
        if description and self._state.run_id in self._state.owned:
            tags["mlflow.note.content"] = shortened(description, MAX_TAG_LENGTH)
        return tags


def _end_ns(batch: Batch) -> int:
    """Returns the time of a batch's last artifact, in nanoseconds since the epoch; 0 when it is empty."""
    times = [artifact.time_ns for column in batch.columns() for artifact in column.artifacts]
    if len(batch.scalars):
        times.append(int(batch.scalars.times_ns.max()))
    return max(times, default=0)
