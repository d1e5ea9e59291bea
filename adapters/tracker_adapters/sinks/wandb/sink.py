"""The W&B sink: one W&B run for each run, offline by default, apart from what the user logs."""

import json
import logging
import shlex
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from tracker_adapters.artifacts import File, Page, Text
from tracker_adapters.sink import (
    BASIC_KINDS,
    Batch,
    HistogramRows,
    Report,
    RunInfo,
    RunStatus,
    SinkConfigError,
    StartOver,
    Unshown,
    folder_errors,
)
from tracker_adapters.sinks.wandb import folders
from tracker_adapters.sinks.wandb.keys import Keys
from tracker_adapters.sinks.wandb.offline import OfflineRun, uploaded_beyond
from tracker_adapters.sinks.wandb.options import resolve
from tracker_adapters.sinks.wandb.rows import artifact_rows
from tracker_adapters.sinks.wandb.sdk_format import why_unknown
from tracker_adapters.sinks.wandb.sdk_run import SdkRun
from tracker_adapters.sinks.wandb.steps import LastSteps

logger = logging.getLogger(__name__)

_LONGEST_TAG = 64  # wandb.Settings refuses longer ones (0.31)

_LONGEST_STATE = 256 * 1024 * 1024
_State: TypeAlias = dict[str, Any]
_STATE_KEYS = {"run_id", "position", "folders", "attempt", "owners", "last_steps"}


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

    Offline, the sink writes the ``.wandb`` file itself, without the SDK and its service process, and cuts it back to
    the token after any end: nothing is lost, doubled or written twice. A file that was uploaded stays as it is; what
    comes later goes into another folder of the same run id, which ``wandb sync`` appends.

    Where the output cannot be cut back, the sink starts a new W&B run from the beginning, numbered after the old one,
    which it marks with ``SUPERSEDED.txt`` and which ``wandb sync`` skips: when the file is gone or was uploaded with
    rows after the token, and online after any end but a clean one, since the SDK keeps no durable log. The same holds
    offline where the installed SDK does not take the file that the sink writes (``sdk_format``), and writes its own.

    An attempt that goes back to an earlier step gets a W&B run of its own, with its number behind the id.
    """

    kinds: ClassVar[frozenset[str]] = BASIC_KINDS | {"curve"}

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
        self._by_sdk = mode == "online"
        self._place = {"project": project, "entity": entity, "group": group}
        self._name = name
        self._tags = tuple(tags)
        self._run_id = run_id
        self.view_command = ""
        self._keys = Keys()
        self._steps = LastSteps()
        self._attempt = 0
        self._reports: dict[str, str] = {}  # what the notes are made of, by scope
        self._folders: list[str] = []
        """The names of the folders that show the run up to the last token."""
        self._info: RunInfo
        self._base = ""
        self._run: OfflineRun | SdkRun | None = None
        self._uploaded: _State = {}
        """After an upload, the position at which another folder goes on once there is something to write."""

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
        """Starts a W&B run, or goes on exactly at ``token``.

        Raises:
            StartOver: When the output cannot be brought back to ``token``; see the class.
        """
        self._info = info
        if not self._by_sdk and (reason := why_unknown()):
            logger.info("W&B's SDK writes this run, and keeps no durable log: %s", reason)
            self._by_sdk = True
        self._base = self._run_id or folders.base_id(info.id)
        found = folders.find(self._target, self._base)
        mine = [folder for folder in found if folder.noted().get("owner") == info.id and not folder.superseded]
        if (self._target / "wandb").is_symlink():
            raise SinkConfigError(f"sink 'wandb': {self._target / 'wandb'} is a link; expected a folder")
        if token is not None:
            self._go_on(mine, _unpacked(token))
            return
        run_id = folders.first_id(self._base, found)
        for folder in mine:
            folder.supersede(run_id)
        self._begin(run_id, notes="" if run_id == self._base else f"Replaces {self._base}, which was cut short.")

    def write(self, batch: Batch) -> Unshown:
        """Adds scalars, then histograms, then the other kinds.

        Returns:
            ``missing_file``: pages and files that are no longer where they were stored.
        """
        missing = 0
        with self._explained():
            run = self._run_for(batch)
            run.scalars(batch.scalars)
            run.histograms(HistogramRows.of(batch.histograms.artifacts))
            for _, artifact in batch.singles():
                if isinstance(artifact, (Page, File)):
                    if not artifact.path.is_file():
                        missing += 1
                        continue
                    run.track(artifact)
                for row in artifact_rows(artifact, self._keys, self.view_command):
                    run.row(row)
                report = Report.of(artifact) if isinstance(artifact, Text) else None
                if report is not None and (notes := report.described(self._reports)):
                    run.note(notes)
        self._steps.follow(batch)
        return {"missing_file": missing} if missing else {}

    def flush(self) -> bytes:
        """Offline, puts everything on the disk. Online, waits until the service has taken it."""
        if self._uploaded:
            return _packed(self._uploaded)
        assert self._run is not None
        with self._explained():
            position = self._run.sync()
        state: _State = {
            "run_id": self._run.id,
            "position": position,
            "folders": self._folders,
            "attempt": self._attempt,
            "owners": self._keys.owners,
            "last_steps": self._steps.by_kind,
            "reports": self._reports,
        }
        return _packed(state)

    def describe(self, info: RunInfo) -> None:
        """Sets the run's name, configuration and tags."""
        self._info = info
        if self._run is not None:
            with self._explained():
                self._run.describe(self._placed(self._run.id), info, self._all_tags())

    def finish(self, status: RunStatus) -> None:
        """Ends the W&B run, as failed or not."""
        if self._run is not None:
            self._run.finish(int(status == "failed"))

    def close(self) -> None:
        """Closes the file; online, ends the W&B run within 30 seconds, and a few to kill the SDK's service."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _explained(self) -> AbstractContextManager[None]:
        # An OSError of the SDK may come from a connection.
        return nullcontext() if self._by_sdk else folder_errors("wandb", str(self._target))

    def _begin(self, run_id: str, notes: str = "", rows: int = 0, after_ns: int = 0) -> OfflineRun | SdkRun:
        about: dict[str, Any] = {"place": self._placed(run_id) | {"notes": notes}, "info": self._info}
        about |= {"tags": self._all_tags(), "keys": self._keys, "rows": rows}
        if self._by_sdk:
            self._run = SdkRun(self._target, mode=self._mode, **about)
        else:
            self._run = OfflineRun.create(self._target, after_ns=after_ns, **about)
        if self._run.folder is not None:
            self._folders.append(self._run.folder.path.name)
        return self._run

    def _all_tags(self) -> list[str]:
        return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in (*self._info.tags, *self._tags)))

    def _placed(self, run_id: str) -> dict[str, str | None]:
        suffix = run_id.removeprefix(self._base).lstrip(".-")
        name = (self._name or self._info.name) + (f" ({suffix})" if suffix else "")
        return {**self._place, "id": run_id, "name": name}

    def _run_for(self, batch: Batch) -> OfflineRun | SdkRun:
        """Returns the run for a batch: another W&B run when a new attempt repeats steps that are already there."""
        at, self._uploaded = self._uploaded, {}
        if self._goes_back(batch):
            run_id = at["run_id"] if self._run is None else self._run.id
            self.finish("failed")
            self.close()
            self._steps, self._reports = LastSteps(), {}
            notes = f"Attempt {batch.attempt} of {self._base}, which went back to an earlier step."
            return self._begin(folders.attempt_id(self._base, run_id, batch.attempt), notes)
        if at:
            position = at["position"]
            return self._begin(at["run_id"], rows=position["rows"], after_ns=position["start_ns"])
        assert self._run is not None
        return self._run

    def _goes_back(self, batch: Batch) -> bool:
        self._attempt = self._attempt or batch.attempt
        if batch.attempt == self._attempt:
            return False
        back = self._steps.gone_back_in(batch)
        if back is not None:  # else there is nothing to tell by; a later batch may have it
            self._attempt = batch.attempt
        return bool(back)

    def _go_on(self, mine: Sequence[folders.RunFolder], state: _State) -> None:
        position, run_id = state["position"], state["run_id"]
        last = next((folder for folder in mine if folder.path.name == position["folder"]), None)
        if last is None:
            raise StartOver(f"the folder {position['folder']} of the W&B run {run_id} is gone or superseded")
        self._keys = Keys(state["owners"])
        self._steps = LastSteps(state["last_steps"])
        self._attempt, self._reports = state["attempt"], state.get("reports", {})
        if self._by_sdk:
            if last.noted().get("closed_at") != position or any(f.path.name not in state["folders"] for f in mine):
                raise StartOver(f"the W&B run in {last.path} was not closed at the last stored position")
            self._folders = state["folders"]
            self._begin(run_id, rows=position["rows"])
            return
        if "offset" not in position:
            raise StartOver(f"the W&B run in {last.path} was written by W&B's SDK")
        if last.uploaded and uploaded_beyond(last, position):
            raise StartOver(f"the W&B run in {last.path} was uploaded with more than the last stored position")
        for folder in mine:
            if folder.path.name not in state["folders"]:
                folder.supersede(run_id)
        self._folders = state["folders"]
        if last.uploaded:
            self._uploaded = state
        else:
            place = self._placed(run_id)
            about: dict[str, Any] = {"info": self._info, "tags": self._all_tags(), "keys": self._keys}
            self._run = OfflineRun.reopen(last, position, place=place, **about)


def _packed(state: _State) -> bytes:
    # Of thousands of names, most have the same last step.
    return zlib.compress(json.dumps(state).encode(), 1)


def _unpacked(token: bytes) -> _State:
    try:
        state: _State = json.loads(zlib.decompressobj().decompress(token, _LONGEST_STATE))
        if not (state.keys() >= _STATE_KEYS and isinstance(state["position"], dict)):
            raise ValueError("keys are missing")
    except (zlib.error, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StartOver(f"the stored position of the W&B sink is {token[:40]!r}; expected one of this sink") from error
    return state
