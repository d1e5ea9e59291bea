"""A W&B run that the SDK's service uploads while it goes on, or writes to an offline file."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import File, Page, RunInfo
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.sink import HistogramRows, ScalarColumns
from tracker_adapters.sinks.wandb.folders import RunFolder
from tracker_adapters.sinks.wandb.keys import STEP_KEY, Keys
from tracker_adapters.sinks.wandb.rows import (
    Cells,
    HtmlPage,
    LinePlot,
    Picture,
    Row,
    TrackedFile,
    artifact_rows,
    scalar_rows,
)
from tracker_adapters.sinks.wandb.service import keep_files_in, start, stop

STOP_TIMEOUT_S = 30.0
"""How long the service may take to end; delivery gives each call of a sink 60 s."""


class SdkRun:
    """One W&B run behind the SDK.

    Args:
        target: The sink's target.
        place: ``id``, ``entity``, ``project``, ``group``, ``name`` and ``notes`` of the run.
        mode: ``online`` or ``offline``.
        info: Our run.
        tags: The run's tags.
        keys: Gives names their keys.
        rows: How many rows of history the run has already.
    """

    def __init__(
        self,
        target: Path,
        *,
        place: Mapping[str, str | None],
        mode: str,
        info: RunInfo,
        tags: list[str],
        keys: Keys,
        rows: int,
    ) -> None:
        self.id = str(place["id"])
        self._files = target / "wandb" / "stepscope_files"
        self._files.mkdir(parents=True, exist_ok=True)
        self._keys = keys
        self._rows = rows
        self._owner = info.id
        self._settled: dict[str, Any] | None = None
        resume = "allow" if rows else None
        arguments = {**place, "mode": mode, "dir": str(target), "tags": tags, "resume": resume}
        self._run: Any = start({**arguments, "config": dict(info.config)}, self._files)
        self._run.define_metric("*", step_metric=STEP_KEY)
        self.folder = RunFolder.of(Path(self._run.settings.sync_file))
        if self.folder is not None:
            self.folder.note(self._owner, {})

    def scalars(self, columns: ScalarColumns) -> None:
        """Logs scalars as rows of the history."""
        self._settled = None
        for row in scalar_rows(columns, self._keys):
            self._log(row)

    def histograms(self, rows: HistogramRows) -> None:
        """Logs histograms, each as a row of the history."""
        self._settled = None
        for artifact in rows:
            for row in artifact_rows(artifact, self._keys):
                self._log(row)

    def row(self, row: Row) -> None:
        """Logs one row of the history."""
        self._settled = None
        keep_files_in(self._files)
        with ExitStack() as kept:
            self._log({key: self._shown(value, kept) for key, value in row.items()})

    def note(self, text: str) -> None:
        """Sets the run's notes."""
        self._settled = None
        self._run.notes = text

    def describe(self, place: Mapping[str, str | None], info: RunInfo, tags: list[str]) -> None:
        """Sets the run's name, configuration and tags."""
        self._settled = None
        self._run.name = place["name"]
        self._run.tags = tuple(tags)
        self._run.config.update(dict(info.config), allow_val_change=True)

    def track(self, artifact: Page | File) -> None:
        """Logs a page or file as a W&B artifact that refers to it."""
        import wandb

        self._settled = None
        keep_files_in(self._files)
        tracked = TrackedFile.of(artifact, self.id)
        logged = wandb.Artifact(tracked.name, type=artifact.kind, metadata=tracked.metadata)
        # Stored files never change, so W&B needs no copy of its own.
        logged.add_file(str(artifact.path), name=tracked.filename, policy="immutable", skip_cache=True)
        self._run.log_artifact(logged)

    def sync(self) -> dict[str, Any]:
        """Waits until the service has taken everything; it is durable once the run is closed."""
        self._run.status()
        self._settled = {"folder": self.folder.path.name if self.folder else "", "rows": self._rows}
        return self._settled

    def finish(self, exit_code: int) -> None:
        """Ends the W&B run; noted is the position if all of it was taken and the service has ended by itself."""
        if self._run is None:
            return
        run, self._run = self._run, None
        ending = stop(run, exit_code, STOP_TIMEOUT_S)
        if ending.on_disk and self._settled is not None and self.folder is not None:
            self.folder.note(self._owner, {"closed_at": self._settled})

    def close(self) -> None:
        """Ends the W&B run and the SDK's service process, within 30 seconds and a few to kill it."""
        self.finish(0)

    def _log(self, row: Row) -> None:
        self._run.log(row, step=self._rows, commit=True)
        self._rows += 1

    def _shown(self, value: Any, kept: ExitStack) -> Any:
        import wandb

        match value:
            case Picture():
                path = kept.enter_context(TemporaryFolder("stepscope_")).path / "picture.png"
                path.write_bytes(value.png)
                return wandb.Image(str(path), caption=value.caption)
            case HtmlPage():
                return wandb.Html(value.text, inject=False, data_is_not_path=True)
            case Cells():
                rows = [list(row) for row in value.rows]
                table = wandb.Table(columns=list(value.columns), data=rows, allow_mixed_types=True)
                if not isinstance(value, LinePlot):
                    return table
                return wandb.plot.line(table, *value.columns, title=value.title, split_table=True)
            case _:
                return value
