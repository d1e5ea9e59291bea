"""The W&B sink: a run of ours, offline by default, beside whatever the user logs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import KINDS, File, Page
from tracker_adapters.sink import Batch, RunInfo, RunStatus, SinkError, StartOver, Unshown
from tracker_adapters.sinks.wandb import folders
from tracker_adapters.sinks.wandb.keys import STEP_KEY, Keys
from tracker_adapters.sinks.wandb.options import resolve
from tracker_adapters.sinks.wandb.rows import Row, RowMaker, scalar_rows
from tracker_adapters.sinks.wandb.service import keep_files_in, start, stop

_STOP_TIMEOUT_S = {"offline": 15.0, "online": 60.0}
_LONGEST_TAG = 64  # wandb.Settings refuses longer ones (0.31)


class WandbSink:
    """Shows a run as a W&B run of its own; a run that the user has active is never touched.

    Options, each with the environment variable that stands in for it: ``target`` (the folder above
    ``wandb/``; the run's folder by default; WANDB_DIR), ``project`` (WANDB_PROJECT), ``entity``
    (WANDB_ENTITY), ``group`` (WANDB_RUN_GROUP), ``name`` (WANDB_NAME), ``mode`` (``offline`` or ``online``;
    WANDB_MODE), ``tags`` (WANDB_TAGS), ``run_id`` (WANDB_RUN_ID). Beside an active run of the user, ours
    takes its project, entity and group; without a group, its id is our group's name.

    Each history row has our own field ``step``, which is every metric's x axis: W&B's own step only counts
    rows, so late and repeated steps are kept. Scalars keep NaN, infinities and all bits.

    Names: the kind that uses a name first has it as its key, another one appends its kind, as in
    ``fc1 (histogram)``. What W&B cannot hold in a key is percent-encoded (``keys.escape``). Histograms are
    merged to 512 bins; elements that are NaN or infinite are counted in ``<key> (nan)``, ``(+inf)`` and
    ``(-inf)``. Texts and alerts are small HTML pages. Tables go on under ``<key> (rows from 10000)``. Pages
    and files are W&B artifacts that refer to the run's folder, and an HTML line that describes them.

    W&B's offline file is no durable log. Only a clean end is trusted: going on after it makes a second folder
    with the same run id (``wandb sync`` uploads both as one run, in order). After any other end the sink
    starts a new W&B run from the beginning, numbered after the old one, which it marks with
    ``SUPERSEDED.txt`` and which ``wandb sync`` skips. An attempt that goes back to an earlier step gets a W&B
    run of its own, with its number behind the id.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(KINDS)

    def __init__(
        self,
        *,
        target: str,
        project: str,
        mode: str = "offline",
        entity: str | None = None,
        group: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        run_id: str | None = None,
    ) -> None:
        self._target = Path(target)
        self._mode = mode
        self._place = {"project": project, "mode": mode, "entity": entity, "group": group}
        self._name = name
        self._tags = tuple(tags)
        self._run_id = run_id
        self._files = self._target / "wandb" / "stepscope_files"
        self._keys = Keys()
        self._rows = 0
        self._attempt = 0
        self._last_steps: dict[str, int] = {}
        self._settled = False
        self._info: RunInfo
        self._base = ""
        self._run: Any = None
        self._folder: folders.RunFolder | None = None
        self._maker: RowMaker

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes the options; see the class for their meaning.

        Raises:
            SinkConfigError: For an unknown option or a value that W&B refuses.
        """
        return resolve(options, run_folder)

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the command that uploads what is written offline, or the project's name."""
        if options["mode"] == "online":
            return f"the project {options['project']} in W&B"
        return f"wandb sync {shlex.quote(options['target'] + '/wandb')}"

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Starts a W&B run, or another folder of one that was closed exactly at ``token``.

        Raises:
            StartOver: When the last folder was not closed at ``token``.
        """
        self._info = info
        self._base = self._run_id or folders.base_id(info.id)
        earlier = folders.find(self._target, self._base)
        if token is not None:
            run_id = self._go_on(earlier, token)
        else:
            run_id = folders.first_id(self._base, earlier)
            for folder in earlier:
                folder.supersede(run_id)
        self._begin(run_id, notes="" if run_id == self._base else f"Replaces {self._base}, which was cut short.")
        self._settled = True

    def write(self, batch: Batch) -> Unshown:
        """Logs scalars, then the other kinds.

        Returns:
            ``missing_file``: pages and files that are no longer where they were stored.
        """
        self._follow_attempt(batch)
        self._settled = False
        keep_files_in(self._files)
        for row in scalar_rows(batch.scalars, self._keys):
            self._log(row)
        self._last_steps.update(zip(batch.scalars.names, batch.scalars.steps.tolist(), strict=True))
        missing = 0
        for column in batch.columns():
            for artifact in column.artifacts:
                if isinstance(artifact, (Page, File)):
                    if not artifact.path.is_file():
                        missing += 1
                        continue
                    self._run.log_artifact(self._maker.tracked_file(artifact))
                for row in self._maker.rows(artifact):
                    self._log(row)
        return {"missing_file": missing} if missing else {}

    def flush(self) -> bytes:
        """Waits until the service has taken everything; it is durable once the run is closed."""
        self._run.status()
        self._settled = True
        return json.dumps(self._position()).encode()

    def finish(self, status: RunStatus) -> None:
        """Ends the W&B run, as failed or not."""
        self._end(exit_code=int(status == "failed"))

    def close(self) -> None:
        """Ends the W&B run and the SDK's service process, within 15 seconds (online: 60) and a few to kill it."""
        self._end(exit_code=0)

    def _begin(self, run_id: str, notes: str) -> None:
        arguments: dict[str, Any] = {**self._place, "id": run_id, "dir": str(self._target), "notes": notes}
        suffix = run_id.removeprefix(self._base).lstrip(".-")
        arguments["name"] = (self._name or self._info.name) + (f" ({suffix})" if suffix else "")
        arguments["resume"] = "allow" if self._mode == "online" and self._rows else None
        tags = (*self._info.tags, *self._tags)
        arguments["tags"] = list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in tags))
        self._files.mkdir(parents=True, exist_ok=True)
        self._run = start({**arguments, "config": dict(self._info.config)}, self._files)
        self._run.define_metric("*", step_metric=STEP_KEY)
        self._folder = folders.RunFolder.of(Path(self._run.settings.sync_file))
        self._maker = RowMaker(self._keys, run_id)

    def _follow_attempt(self, batch: Batch) -> None:
        """Moves to another W&B run when a new attempt repeats steps that are already there."""
        self._attempt = self._attempt or batch.attempt
        if batch.attempt == self._attempt:
            return
        names, steps = batch.scalars.names, batch.scalars.steps.tolist()
        first_steps = dict(zip(reversed(names), reversed(steps), strict=True))
        known = first_steps.keys() & self._last_steps.keys()
        if not known:  # nothing to tell by; a later batch may have it
            return
        self._attempt = batch.attempt
        if all(first_steps[name] > self._last_steps[name] for name in known):
            return
        run_id = self._run.id
        if not self._end(exit_code=1):
            raise SinkError(f"the W&B run {run_id} could not be closed before attempt {batch.attempt}")
        self._rows = 0
        self._last_steps = {}
        notes = f"Attempt {batch.attempt} of {self._base}, which went back to an earlier step."
        self._begin(folders.attempt_id(run_id, batch.attempt), notes)

    def _log(self, row: Row) -> None:
        self._run.log(row, step=self._rows, commit=True)
        self._rows += 1

    def _position(self) -> dict[str, Any]:
        return {"run_id": self._run.id, "rows": self._rows}

    def _go_on(self, earlier: Sequence[folders.RunFolder], token: bytes) -> str:
        last = earlier[-1] if earlier else None
        note = last.closed_at() if last and not last.superseded else None
        if last is None or note is None or note["position"] != json.loads(token):
            raise StartOver(
                f"the W&B run in {last.path if last else self._target} was not closed at the last stored position; "
                "a new one starts from the beginning"
            )
        self._keys = Keys(note["owners"])
        self._rows = note["position"]["rows"]
        self._attempt = note["attempt"]
        self._last_steps = note["last_steps"]
        return last.run_id

    def _end(self, exit_code: int) -> bool:
        """Ends the W&B run and notes where; returns whether its service agreed."""
        if self._run is None:
            return True
        note = {
            "position": self._position(),
            "owners": self._keys.owners,
            "attempt": self._attempt,
            "last_steps": self._last_steps,
        }
        run, self._run = self._run, None
        ending = stop(run, exit_code, _STOP_TIMEOUT_S[self._mode])
        if ending.on_disk and self._settled and self._folder is not None:
            self._folder.close(note)
        return ending.finished
