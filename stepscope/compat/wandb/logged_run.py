"""A run as W&B's scripts see it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError

from stepscope.compat.errors import missing, refuse
from stepscope.compat.joined_runs import JoinedRun
from stepscope.compat.wandb.artifact import Artifact
from stepscope.compat.wandb.history import History
from stepscope.compat.wandb.run_config import Config
from stepscope.compat.wandb.run_summary import Metric, Summary
from stepscope.compat.wandb.saved_files import SavedFiles
from stepscope.compat.wandb.values import frozen, put

if TYPE_CHECKING:
    from stepscope.runs.live_run import Run as StepscopeRun
    from stepscope.scripts.trainings import WatchedOptimizers

_LEVELS: dict[str, AlertLevel] = {"INFO": "info", "WARN": "warning", "ERROR": "error"}


class Run:
    """One run, with the calls of W&B's; made by ``init``.

    ``stepscope_run`` is the run behind it, for what W&B lacks: ``stepscope.watch(model, optimizer,
    run=wandb.run.stepscope_run)``. It is None with ``mode="disabled"``, where nothing is recorded.

    Attributes:
        id, name, notes, tags, project, entity, group, job_type: What ``init`` was given; ``id`` and ``name`` are those
            of the run where it was given none.
        config: See ``Config``.
        summary: See ``Summary``.
        resumed: Whether it continues an earlier run.
        disabled: Whether it records nothing.
    """

    def __init__(
        self, joined: JoinedRun | None, about: Mapping[str, Any], on_finish: Callable[[Run], None], first_step: int = 0
    ) -> None:
        self._joined, self._on_finish = joined, on_finish
        self._emitter: Emitter | None = None if joined is None else joined.emitter
        self.stepscope_run: StepscopeRun | None = None if joined is None else joined.run
        self.project, self.entity = about.get("project"), about.get("entity")
        self.group, self.job_type, self.notes = about.get("group"), about.get("job_type"), about.get("notes")
        self.resumed, self.start_time, self.disabled = first_step > 0, time.time(), joined is None
        known = {} if joined is None else joined.run.info.config
        self.config = Config(self._tell_config, known, may_change=first_step > 0)
        self.summary = Summary()
        self._history = History(self._put, first_step)
        self._first_step = first_step
        self._watched: WatchedOptimizers | None = None
        self._alerted: dict[str, float] = {}
        self._ending = threading.RLock()
        self._ended = self._has_recorded_end = False
        if joined is not None:
            self.id = about.get("id") or joined.run.info.id
            self._files = SavedFiles(self._emitter, joined.run.path / "files")
            joined.run.call_before_close(self._before_close)
        else:
            self.id, self._files = about.get("id") or "disabled", SavedFiles(None, Path())
            self._name, self._tags = str(about.get("name") or ""), tuple(about.get("tags") or ())

    @property
    def name(self) -> str:
        """The displayed name; may be set."""
        return self._name if self.stepscope_run is None else self.stepscope_run.info.name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        if self.stepscope_run is not None:
            self.stepscope_run.describe(name=name)

    @property
    def tags(self) -> tuple[str, ...]:
        """The labels; may be set."""
        return self._tags if self.stepscope_run is None else self.stepscope_run.info.tags

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self._tags = tuple(tags)
        if self.stepscope_run is not None:
            self.stepscope_run.describe(tags=tuple(tags))

    @property
    def step(self) -> int:
        """The step of the row that gathers."""
        return self._history.step

    @property
    def starting_step(self) -> int:
        """The first step of this attempt."""
        return self._first_step

    @property
    def dir(self) -> str:
        """A folder; the files in it are recorded when the run ends."""
        if self.stepscope_run is not None:
            self._files.folder.mkdir(exist_ok=True)
        return str(self._files.folder)

    @property
    def url(self) -> None:
        """None: the run lies in a folder, which ``stepscope view`` shows."""
        return None

    @property
    def offline(self) -> bool:
        """True: nothing is asked of W&B's service; a sink may upload beside the training."""
        return True

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Records a mapping of names to values; see ``History.log`` for steps, ``values.frozen`` for the types.

        Raises:
            ArtifactError: For data that cannot be recorded.
        """
        self._check_open("log")
        self._history.log(data, step, commit)

    def alert(self, title: str, text: str, level: Any = None, wait_duration: int | float | Any | None = None) -> None:
        """Records an alert; one of the same title within ``wait_duration`` (seconds, 60 by default) is left out."""
        self._check_open("alert")
        word = str(getattr(level, "value", level) or "INFO").upper()
        if word not in _LEVELS:
            raise ArtifactError(f"alert {title!r}: level is {level!r}; expected one of {', '.join(_LEVELS)}")
        wait_s = 60.0 if wait_duration is None else getattr(wait_duration, "total_seconds", lambda: wait_duration)()
        now = time.monotonic()
        if now - self._alerted.get(title, -float("inf")) < float(wait_s):
            return
        self._alerted[title] = now
        if self._emitter is not None:
            self._emitter.alert(title, text, level=_LEVELS[word], step=self.step)

    def define_metric(
        self,
        name: str,
        step_metric: str | Metric | None = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        overwrite: bool | None = None,
    ) -> Metric:
        """Says how a name, or those of a pattern, are summed up: ``summary="min,max"`` adds ``summary/<name>.min``.

        The other arguments have no effect: series are recorded over the steps, ``step_metric`` as one of them.
        """
        words = tuple(word.strip() for word in (summary or "").split(",") if word.strip())
        axis = step_metric.name if isinstance(step_metric, Metric) else step_metric
        metric = Metric(name, axis, words)
        self.summary.define(metric)
        return metric

    def watch(
        self,
        models: Any,
        criterion: Any = None,
        log: Any = "gradients",
        log_freq: int = 1000,
        idx: int | None = None,
        log_graph: bool = False,
    ) -> None:
        """Watches the trainings of models as ``stepscope.watch`` does, each from its optimizer's first step on.

        ``log`` is ``gradients``; ``parameters`` or ``all``, which also measure weights; or None for nothing.
        ``log_graph`` is not supported. The rest has no effect: the loss is seen by itself, and every gradient measured
        at every step, within 5 % of the step time.
        """
        self._check_open("watch")
        refuse("watch", {"log_graph": log_graph}, "debuggers.ModelDiagnostics describes a model's architecture")
        if log not in ("gradients", "parameters", "all", None):
            raise ArtifactError(f"watch: log is {log!r}; expected gradients, parameters, all or None")
        if log is None or self._joined is None or self._joined.is_scripts:  # stepscope run watches by itself
            return
        from stepscope.integrations.session_options import SessionOptions
        from stepscope.scripts.trainings import WatchedOptimizers
        from stepscope.sessions.config import DebugConfig

        self.unwatch()
        chosen = tuple(models) if isinstance(models, (tuple, list)) else (models,)
        options = SessionOptions(DebugConfig(weights=log != "gradients"))
        self._watched = WatchedOptimizers(self._joined.emitter, options, chosen)

    def unwatch(self, models: Any = None) -> None:
        """Ends what ``watch`` began."""
        if self._watched is not None:
            self._watched.end()
            self._watched = None

    def save(
        self, glob_str: str | os.PathLike[str], base_path: str | os.PathLike[str] | None = None, policy: str = "live",
        glob: bool = True,
    ) -> list[str]:  # fmt: skip
        """Records the files of a pattern: as they are, and again at the end if they have changed by then.

        Returns:
            Their paths.
        """
        self._check_open("save")
        return self._files.save(glob_str, base_path, policy, self.step, globs=glob)

    def log_artifact(
        self,
        artifact_or_path: Artifact | str | os.PathLike[str],
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
    ) -> Artifact:
        """Records an artifact, a file or a folder; aliases and tags have no effect."""
        self._check_open("log_artifact")
        if isinstance(artifact_or_path, Artifact):
            artifact = artifact_or_path
        else:
            path = Path(artifact_or_path)
            artifact = Artifact(name or f"run-{self.id}-{path.name}", type or "unspecified")
            (artifact.add_dir if path.is_dir() else artifact.add_file)(path)
        if self._emitter is not None:
            artifact.put(self._emitter, self.step)
        return artifact

    def finish(self, exit_code: int | None = None) -> None:
        """Ends the run, as failed where the exit code is not zero."""
        with self._ending:
            if self._ended:
                return
            self._before_close()
            self._ended = True
        if self._joined is not None:
            self._joined.leave(failed=bool(exit_code))
        self._on_finish(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.finish(int(exc_type is not None))

    def __repr__(self) -> str:
        return f"<Run {self.name!r} of stepscope.compat.wandb, in {getattr(self.stepscope_run, 'path', 'no folder')}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing("stepscope.compat.wandb's run", name, [*dir(type(self)), "config", "summary", "id"])

    def _check_open(self, call: str) -> None:
        if self._ended:
            raise ArtifactError(f"{call}: run {self.name!r} is finished; expected another init first")

    def _tell_config(self, values: dict[str, Any]) -> None:
        if self.stepscope_run is not None:
            self.stepscope_run.describe(config=values)

    def _put(self, row: dict[str, Any], step: int) -> None:
        self.summary.follow(row)
        if self._emitter is None:
            return
        for name, value in row.items():
            put(self._emitter, self._shown(name), value, step)

    def _shown(self, name: str) -> str:
        """The name of a series: another one where a session emits a series of this name."""
        if self._watched is None and not (self._joined is not None and self._joined.is_scripts):
            return name
        from stepscope.integrations.watched_training import OWN_SERIES

        return f"logged/{name}" if name in OWN_SERIES else name

    def _before_close(self) -> None:
        """Records what waits for the run's end, also where a script ends without ``finish``."""
        with self._ending:
            if self._has_recorded_end or self._emitter is None:
                return
            self.unwatch()
            self._history.flush()
            step = max(0, self.step - 1)
            self._files.end(step)
            for name, value in frozen({"summary": self.summary.given()}):
                put(self._emitter, name, value, step)
            self._has_recorded_end = True
