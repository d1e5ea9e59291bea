"""The TensorBoard sink: event files that ``tensorboard --logdir`` shows."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tracker_adapters.sink import (
    Batch,
    RunInfo,
    RunStatus,
    SinkError,
    Unshown,
    checked_options,
    local_folder,
)

if TYPE_CHECKING:
    from tracker_adapters.sinks.tensorboard.encoder import Encoder
    from tracker_adapters.sinks.tensorboard.event_file import EventFile


# 0 would mean everything to the data server, and nothing to the time series page (TensorBoard 2.21).
WHOLE_SERIES = "scalars=1000000,histograms=100000,images=10000,text=10000"


class TensorBoardSink:
    """Writes one event file, without TensorFlow and torch.

    Names: an artifact's name is its tag. TensorBoard gives a tag to one plugin, so where several kinds share
    a name, the first one emitted keeps it and each other is tagged ``name (kind)``.

    Scalars are float32 in TensorBoard: finite values beyond 3.4e38 show as infinity. NaN and infinity show as
    they are.

    Histograms hold the finite elements, in at most 512 bins; one with no finite element shows as empty. The
    numbers of NaN and infinite elements have no place in TensorBoard's histogram.

    Alerts, tables, pages and files show as text: a page with its table of contents, a file with its name,
    size and checksum. Tables end after 500 rows. Several texts of one name and step are shown in one entry
    when they arrive in one batch.

    Steps: TensorBoard erases points of a tag when a step does not ascend. Such an artifact is never written,
    and is counted as ``late_step``.

    TensorBoard itself shows a sample of a long series; the command that ``look`` returns raises its limits.

    TensorBoard has no place for a run's configuration, tags and status; they are not written.

    Args:
        target: The folder for the event file, absolute.
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"scalar", "histogram", "image", "text"})

    def __init__(self, target: str) -> None:
        self.target = target
        self._file: EventFile | None = None
        self._encoder: Encoder | None = None

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes ``target``, a local folder.

        By default it is ``tensorboard`` in the run's folder, or, where the environment variable
        TENSORBOARD_LOGGING_DIR is set, a folder in there with the name of the run's folder.
        """
        given = checked_options("tensorboard", options, {"target": str})
        shared = os.environ.get("TENSORBOARD_LOGGING_DIR")
        default = Path(shared) / run_folder.name if shared else run_folder / "tensorboard"
        target = given.get("target", str(default))
        return {"target": local_folder("tensorboard", target)}

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the command that starts TensorBoard, with limits above what long series hold."""
        # Started one folder up, TensorBoard calls the run by the target's name instead of ".".
        folder = shlex.quote(str(Path(options["target"]).parent))
        return f"tensorboard --logdir {folder} --samples_per_plugin {WHOLE_SERIES}"

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Cuts the event file back to ``token``, or removes this run's files and begins one.

        Raises:
            StartOver: When the file is gone, shorter than the token says, or damaged.
            SinkError: When the folder or file cannot be written.
        """
        from tracker_adapters.sinks.tensorboard.encoder import Encoder
        from tracker_adapters.sinks.tensorboard.event_file import EventFile

        with self._explained():
            if token is not None:
                place = json.loads(token)
                self._file = EventFile.reopen(Path(self.target, place["file"]), place["offset"])
                self._encoder = Encoder(self._file)
                self._encoder.replay()
            else:
                self._file = EventFile.create(self._new_path(info))
                self._encoder = Encoder(self._file)
                self._encoder.start(info.created_ns)

    def write(self, batch: Batch) -> Unshown:
        """Appends a batch, in the order of emission, so that a replay gives the same bytes."""
        with self._explained():
            late = self._opened()[1].append(batch)
        return {"late_step": late} if late else {}

    def flush(self) -> bytes:
        """Puts the events on the disk; the token is the file's name and size."""
        with self._explained():
            file = self._opened()[0]
            return json.dumps({"file": file.path.name, "offset": file.sync()}).encode()

    def finish(self, status: RunStatus) -> None:
        """Does nothing: TensorBoard knows no state of a run."""

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
        self._file = self._encoder = None

    def _opened(self) -> tuple[EventFile, Encoder]:
        if self._file is None or self._encoder is None:
            raise SinkError("sink 'tensorboard' is not open")
        return self._file, self._encoder

    def _new_path(self, info: RunInfo) -> Path:
        """A path for a new file, after removing what an earlier opening of this run left.

        TensorBoard follows one file a folder, so no two may stay; and it recognises a new file by its name.
        """
        folder = Path(self.target)
        folder.mkdir(parents=True, exist_ok=True)
        mark = f"stepscope-{hashlib.sha256(info.id.encode()).hexdigest()[:12]}"
        for leftover in folder.glob(f"events.out.tfevents.*.{mark}"):
            leftover.unlink()
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        host = socket.gethostname().replace("/", "_")[:64]
        return folder / f"events.out.tfevents.{seconds}.{host}.{nanoseconds:09d}.{mark}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(f"sink 'tensorboard': cannot write to {self.target}: {error.strerror or error}") from error
