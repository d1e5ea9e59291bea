"""The TensorBoard sink: event files that ``tensorboard --logdir`` shows."""

from __future__ import annotations

import json
import operator
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tracker_adapters.sink import (
    BASIC_KINDS,
    Batch,
    RunInfo,
    RunStatus,
    SinkError,
    StartOver,
    Unshown,
    checked_options,
    folder_errors,
    local_folder,
)

if TYPE_CHECKING:
    from tracker_adapters.sinks.tensorboard.encoder import Encoder
    from tracker_adapters.sinks.tensorboard.event_file import EventFile
    from tracker_adapters.sinks.tensorboard.folder import EventFolder


# 0 would mean everything to the data server, and nothing to the time series page (TensorBoard 2.21).
WHOLE_SERIES = "scalars=1000000,histograms=100000,images=10000,text=10000"
LOSS_FIRST = "http://localhost:6006/?pinnedCards=%5B%7B%22plugin%22:%22scalars%22,%22tag%22:%22loss%22%7D%5D#timeseries"
"""TensorBoard sorts the charts by their names; a card that is pinned in the address stands above all."""


class TensorBoardSink:
    """Writes one event file, without TensorFlow and torch.

    Names: an artifact's name is its tag. TensorBoard gives a tag to one plugin, so where several kinds share
    a name, the first one emitted keeps it and each other is tagged ``name (kind)``.

    Scalars are float32 in TensorBoard: finite values beyond 3.4e38 show as infinity. NaN and infinity show as
    they are.

    Histograms hold the finite elements, in at most 512 bins; one with no finite element shows as empty. The
    numbers of NaN and infinite elements have no place in TensorBoard's histogram.

    Alerts, tables, pages and files show as text: a page with its table of contents, a file with its name,
    size and checksum. Tables end after 500 rows. Several texts of one name and step share an entry when they
    arrive in one batch; what comes in a later batch has the tag ``name (kind)``, ``name (kind 2)`` and so on.

    Steps: TensorBoard erases points of a tag when a step does not ascend. Such an artifact is never written,
    and is counted as ``late_step``.

    Rewinds: where a later attempt of the run begins a name again at a step that an earlier attempt has reached,
    everything of that name from this step on is superseded. The event file is then written anew without it.
    What is superseded was delivered, and counts as that.

    One run has a folder for itself: where another run's file lies in it, the file goes into a folder in there, named
    after the run.

    TensorBoard itself shows a sample of a long series; the command that ``look`` returns raises its limits.

    The run's configuration and status are on the page HPARAMS, with the last value of its losses and metrics; values
    that are not finite are texts there. The page CUSTOM SCALARS has the losses first and the gradients' health in one
    dashboard. TensorBoard has no place for a run's tags; they are not written.

    Args:
        target: The folder for the event file, absolute.
    """

    kinds: ClassVar[frozenset[str]] = BASIC_KINDS | {"curve"}
    first_page: ClassVar[str] = LOSS_FIRST
    folder_per_run: ClassVar[bool] = True

    def __init__(self, target: str) -> None:
        self.target = target
        self.progressed: Callable[[], object] = lambda: None
        self.view_command = ""
        self._info: RunInfo | None = None
        self._folder: EventFolder | None = None
        self._encoder: Encoder | None = None
        self._superseded: list[Path] = []
        self._removable: list[Path] = []

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes ``target``, a local folder.

        By default it is the run's folder, whose name TensorBoard then shows, or, where the environment variable
        TENSORBOARD_LOGGING_DIR is set, a folder in there with the name of the run's folder.
        """
        given = checked_options("tensorboard", options, {"target": str})
        shared = os.environ.get("TENSORBOARD_LOGGING_DIR")
        default = Path(shared) / run_folder.name if shared else run_folder
        target = given.get("target", str(default))
        return {"target": local_folder("tensorboard", target, run_folder)}

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the command that starts TensorBoard, with limits above what long series hold."""
        from tracker_adapters.sinks.tensorboard.log_folder import log_option

        command = shlex.join(["tensorboard", *log_option(Path(options["target"]))])
        return f"{command} --samples_per_plugin {WHOLE_SERIES}"

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Cuts the event file back to ``token``, or begins one; removes this run's other files.

        Raises:
            StartOver: When the file is gone, shorter than the token says, or damaged.
            SinkError: When the folder or file cannot be written.
        """
        from tracker_adapters.sinks.tensorboard.event_file import EventFile
        from tracker_adapters.sinks.tensorboard.folder import EventFolder

        self._info = info
        with folder_errors("tensorboard", self.target):
            folder = self._folder = EventFolder(Path(self.target), info)
            if token is not None:
                name, offset, attempt, began = _place(token)
                file = EventFile.reopen(Path(self.target), folder.named(name), offset)
                encoder = self._encoder = self._encoder_of(file, attempt=attempt, began=began)
                encoder.replay()
                folder.remove_all_but(encoder.file.path)
            else:
                encoder = self._encoder = self._encoder_of(folder.create())
                folder.remove_all_but(encoder.file.path)
                encoder.start(info)

    def write(self, batch: Batch) -> Unshown:
        """Appends a batch, in the order of emission, so that a replay gives the same bytes.

        Where a later attempt of the run goes back, everything but what it supersedes is first copied to a new file.
        """
        with folder_errors("tensorboard", self.target):
            folder, encoder = self._opened()
            self._remove_what_no_token_names()
            encoder.begin_attempt(batch.attempt)
            if superseded := encoder.superseded_by(batch):
                self._encoder = encoder.moved_to(folder.create(), superseded)
                encoder.file.close()
                self._superseded.append(encoder.file.path)
                encoder = self._encoder
            late = encoder.append(batch)
        return {"late_step": late} if late else {}

    def flush(self) -> bytes:
        """Puts the events on the disk; the token is the file's name and size, and where the attempt's events begin."""
        with folder_errors("tensorboard", self.target):
            folder, encoder = self._opened()
            size = encoder.file.sync()
            self._removable += self._superseded
            self._superseded = []
            place = {"file": folder.relative(encoder.file.path), "offset": size}
            return json.dumps(place | {"attempt": encoder.attempt, "began": encoder.began}).encode()

    def describe(self, info: RunInfo) -> None:
        """Follows a run's configuration and name.

        Raises:
            StartOver: When they have changed: TensorBoard reads them at the beginning of the file alone.
        """
        from tracker_adapters.sinks.tensorboard.dashboards import first_events

        before, self._info = self._info, info
        if before is not None and first_events(before) != first_events(info):
            raise StartOver(f"the configuration of run {info.name!r} has changed")

    def finish(self, status: RunStatus) -> None:
        """Writes how the run ended, for the page HPARAMS, and tidies up."""
        with folder_errors("tensorboard", self.target):
            self._remove_what_no_token_names()
            _, encoder = self._opened()
            if self._info is not None:
                encoder.finish(self._info, status)

    def close(self) -> None:
        """Closes the file."""
        if self._encoder is not None:
            self._encoder.file.close()
        self._encoder = self._folder = None

    def _opened(self) -> tuple[EventFolder, Encoder]:
        if self._folder is None or self._encoder is None:
            raise SinkError("sink 'tensorboard' is not open")
        return self._folder, self._encoder

    def _encoder_of(self, file: EventFile, *, attempt: int = 1, began: int = 0) -> Encoder:
        from tracker_adapters.sinks.tensorboard.encoder import Encoder

        return Encoder(file, self.progressed, attempt=attempt, began=began, view_command=self.view_command)

    def _remove_what_no_token_names(self) -> None:
        """Called once delivery has stored the token of the last flush: it goes on only then."""
        for path in self._removable:
            path.unlink(missing_ok=True)
        self._removable = []


def _place(token: bytes) -> tuple[str, int, int, int]:
    """The file's name, its size, the attempt and where its events begin."""
    try:
        place = json.loads(token)
        numbers = [operator.index(place[key]) for key in ("offset", "attempt", "began")]
        if min(numbers) < 0:
            raise ValueError("negative numbers")
        return str(place["file"]), numbers[0], numbers[1], numbers[2]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StartOver(f"no place in an event file: {token!r}") from error
