"""The W&B sink: a run of ours, offline by default, beside whatever the user logs."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import KINDS, File, Page
from tracker_adapters.sink import Batch, RunInfo, RunStatus, StartOver, Unshown
from tracker_adapters.sinks.wandb import folders
from tracker_adapters.sinks.wandb.keys import LONGEST_RUN_ID, STEP_KEY, Keys
from tracker_adapters.sinks.wandb.options import resolve
from tracker_adapters.sinks.wandb.rows import Row, RowMaker, scalar_rows
from tracker_adapters.sinks.wandb.service import own_environment, start, stop

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
    ``SUPERSEDED.txt`` and which ``wandb sync`` skips.
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
        self._data_folder = self._target / "wandb" / "stepscope_files"
        self._keys = Keys()
        self._rows = 0
        self._settled = False
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
        base = self._run_id or _run_id(info.id)
        earlier = folders.find(self._target, base)
        if token is not None:
            run_id = self._go_on(earlier, token)
        else:
            run_id = folders.next_run_id(base, earlier)
            for folder in earlier:
                folder.supersede(run_id)
        arguments: dict[str, Any] = {**self._place, "id": run_id, "dir": str(self._target)}
        arguments["name"] = self._name or info.name
        if run_id != base:
            arguments["name"] += f" ({run_id.removeprefix(base + '.')})"
            arguments["notes"] = f"Replaces {base}, which was cut short."
        if token is not None and self._mode == "online":
            arguments["resume"] = "allow"
        arguments["tags"] = list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in (*info.tags, *self._tags)))
        self._data_folder.mkdir(parents=True, exist_ok=True)
        with own_environment(self._data_folder):
            self._run = start({**arguments, "config": dict(info.config)})
            self._run.define_metric("*", step_metric=STEP_KEY)
        self._folder = folders.RunFolder.of(Path(self._run.settings.sync_file))
        self._maker = RowMaker(self._keys, run_id)
        self._settled = True

    def write(self, batch: Batch) -> Unshown:
        """Logs scalars, then the other kinds; everything can be shown."""
        self._settled = False
        with own_environment(self._data_folder):
            for row in scalar_rows(batch.scalars, self._keys):
                self._log(row)
            for column in batch.columns():
                for artifact in column.artifacts:
                    if isinstance(artifact, (Page, File)):
                        self._run.log_artifact(self._maker.tracked_file(artifact))
                    for row in self._maker.rows(artifact):
                        self._log(row)
        return {}

    def flush(self) -> bytes:
        """Waits until the service has taken everything; it is durable once the run is closed."""
        self._run.status()
        self._settled = True
        return json.dumps(self._position(self._run)).encode()

    def finish(self, status: RunStatus) -> None:
        """Ends the W&B run, as failed or not."""
        self._end(exit_code=int(status == "failed"))

    def close(self) -> None:
        """Ends the W&B run and the SDK's service process, within 15 seconds (online: 60) and a few to kill it."""
        self._end(exit_code=0)

    def _log(self, row: Row) -> None:
        self._run.log(row, step=self._rows, commit=True)
        self._rows += 1

    def _position(self, run: Any) -> dict[str, Any]:
        return {"run_id": run.id, "rows": self._rows}

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
        return last.run_id

    def _end(self, exit_code: int) -> None:
        if self._run is None:
            return
        run, self._run = self._run, None
        position = self._position(run)
        with own_environment(self._data_folder):
            clean = stop(run, exit_code, _STOP_TIMEOUT_S[self._mode])
        if clean and self._settled and self._folder is not None:
            self._folder.close({"position": position, "owners": self._keys.owners})


def _run_id(run_id: str) -> str:
    """Returns a run's id as W&B takes it; ids that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", run_id)
    if plain == run_id and len(plain) <= LONGEST_RUN_ID:
        return plain
    return f"{plain[: LONGEST_RUN_ID - 9]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
