"""Reads the event files of one folder into a run."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.errors import ArtifactError, MissingPackageError
from tracker_adapters.redaction import redact_config
from tracker_adapters.values.base import MAX_STEP, check_name

from stepscope.importing.new_run import NewRun
from stepscope.importing.skipped import NotImportable, Skipped

MAX_RECORD_BYTES = 256 * 1024 * 1024
_HPARAMS = "_hparams_/session_start_info"
_SILENT = frozenset({"file_version", "session_log", None})


def is_event_file(name: str) -> bool:
    """Whether TensorBoard would take a file of this name for an event file."""
    return "tfevents" in name and not name.endswith(".profile-empty")


def import_event_files(files: Sequence[Path], run: NewRun, skipped: Skipped) -> None:
    """Reads event files in the order of their names, as TensorBoard does.

    Where a file continues at a step of a tag that an earlier file has reached, it was written after a restart: then it
    begins a new attempt, and readers show what it says of that step.

    Raises:
        MissingPackageError: When tensorboard or google_crc32c is not installed.
    """
    try:
        import tensorboard.compat.proto.event_pb2  # noqa: F401
        import tracker_adapters.formats.tfrecords  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            f"event files need tensorboard and google-crc32c ({error}); pip install 'stepscope[tensorboard]'"
        ) from error
    folder = _Folder(run, skipped)
    for path in sorted(files, key=lambda path: path.name):
        folder.add(path)


class _Folder:
    """What is known of a folder's tags."""

    def __init__(self, run: NewRun, skipped: Skipped) -> None:
        self._run = run
        self._skipped = skipped
        self._plugins: dict[str, str] = {}
        self._reached: dict[str, int] = {}
        self._last_time_ns = 0

    def add(self, path: Path) -> None:
        """Reads one file."""
        reached_here: dict[str, int] = {}
        is_restart = False
        try:
            for step, time_ns, value in self._values(path):
                if not is_restart and step <= self._reached.get(value.tag, -1):
                    is_restart = True
                    self._run.begin_attempt()
                reached_here[value.tag] = max(step, reached_here.get(value.tag, -1))
                self._add_value(path, step, time_ns, value)
        except OSError as error:
            self._skipped.add("the rest of a file that cannot be read", f"{path}: {error.strerror}")
        for tag, step in reached_here.items():
            self._reached[tag] = max(step, self._reached.get(tag, -1))

    def _values(self, path: Path) -> Iterator[tuple[int, int, Any]]:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event

        for record in self._records(path):
            try:
                event = Event.FromString(record)
            except DecodeError:
                self._skipped.add("a record that is not an event", str(path))
                continue
            what = event.WhichOneof("what")
            if what != "summary":
                if what not in _SILENT:
                    self._skipped.add(f"an event of the kind {what}", str(path))
                continue
            time_ns = self._time_ns(event.wall_time, path)
            for value in event.summary.value:
                if not 0 <= event.step <= MAX_STEP:
                    self._skipped.add("a step below 0", f"{value.tag[:60]!r} at {event.step} in {path}")
                else:
                    yield event.step, time_ns, value

    def _records(self, path: Path) -> Iterator[bytes]:
        from tracker_adapters.formats.tfrecords import read_records

        with path.open("rb") as stream:
            for start, data, flaw in read_records(stream, max_bytes=MAX_RECORD_BYTES):
                if flaw:
                    self._skipped.add(flaw, f"{path} from byte {start}")
                else:
                    yield data

    def _time_ns(self, wall_time: float, path: Path) -> int:
        if math.isfinite(wall_time) and 0 <= wall_time * 1e9 <= MAX_STEP:
            self._last_time_ns = min(round(wall_time * 1e9), MAX_STEP)
        else:
            self._skipped.add("an invalid time (replaced by the one before it)", f"{wall_time} in {path}")
        return self._last_time_ns

    def _add_value(self, path: Path, step: int, time_ns: int, value: Any) -> None:
        from stepscope.importing.event_values import add_value

        plugin = value.metadata.plugin_data.plugin_name or self._plugins.get(value.tag, "")
        self._plugins[value.tag] = plugin
        try:
            if value.tag == _HPARAMS and plugin == "hparams":
                self._run.config.update(_hyperparameters(value.metadata.plugin_data.content))
                return
            common = {"name": check_name("value", value.tag), "step": step, "time_ns": time_ns}
            add_value(self._run, value, plugin, common)
        except (NotImportable, ArtifactError) as error:
            reason = error.args[0] if isinstance(error, NotImportable) else "a value that is not an artifact"
            detail = "" if isinstance(error, NotImportable) else f": {error}"
            self._skipped.add(reason, f"{value.tag[:60]!r} at step {step} in {path}{detail[:200]}")


def _hyperparameters(content: bytes) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    try:
        found = HParamsPluginData.FromString(content).session_start_info.hparams
        # JSON has no NaN and no infinity, which these numbers may be.
        return redact_config(
            {
                name: value.number_value if value.WhichOneof("kind") == "number_value" else MessageToDict(value)
                for name, value in found.items()
            }
        )
    except (DecodeError, ValueError) as error:
        raise NotImportable("hyperparameters that cannot be read") from error
