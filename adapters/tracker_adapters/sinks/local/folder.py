"""The folder of the local sink: whose it is, its append-only files, and the way back to a token."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tracker_adapters.artifacts import KINDS
from tracker_adapters.atomic_files import put_on_disk, write_atomically
from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.safe_files import (
    is_folder,
    make_folders,
    open_file,
    read_file,
    remove_file,
    status_of,
    write_file,
)
from tracker_adapters.sink import RunInfo, RunStatus, SinkConfigError, SinkError, StartOver
from tracker_adapters.sinks.local.lines import SCALAR_HEADER

SCALARS, HISTOGRAMS, ALERTS, INDEX = "scalars.csv", "histograms.jsonl", "alerts.jsonl", "artifacts.jsonl"
STREAMS = (SCALARS, HISTOGRAMS, ALERTS, INDEX)
FOLDERS = {kind: f"{kind}s" for kind in KINDS if kind not in {"scalar", "histogram", "alert"}} | {"text": "text"}
"""Where the files of each kind lie."""
RUN_INFO, README = "run_info.json", "README.txt"
_README = f"""\
scalars.csv has every scalar, alerts.jsonl every alert, histograms.jsonl every histogram in at most 128 bins.
{", ".join(FOLDERS.values())} hold one folder a name, and in it one file each time: <step>-<number>.
artifacts.jsonl says of each of these files which name (unchanged), step and time it stands for.
In tables (CSV) text is quoted, numbers are bare and an empty field is None; in JSON, NaN is the string "nan".
attempt is 1, and one more each time that the run was resumed: the latest attempt at a step is the one that counts.
run_info.json has the run's configuration and status. Pages are read with joblib.load: open only those you trust.
"""


class OutputFolder:
    """One run's output. Its streams only grow, so their sizes say what it held at a moment.

    A file's line in the index reaches the operating system before the file is made; so whatever a killed process
    leaves is named there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._streams: dict[str, BinaryIO] = {}
        self._unsynced: set[Path] = set()
        self._unsynced_folders: set[Path] = set()

    def claim(self, info: RunInfo) -> None:
        """Makes the folder ours, or accepts that it is.

        Raises:
            SinkConfigError: When it holds the output of another run, or files of that name from elsewhere.
        """
        if not self.belongs_to(info):
            for name in (RUN_INFO, README, *STREAMS, *FOLDERS.values()):
                if (self.path / name).exists():
                    raise self._taken(name, info)
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim_first(info)

    def describe(self, info: RunInfo) -> None:
        """Writes what says whose folder it is and what lies in it."""
        self.save_info(info, info.status)
        write_file(self.path, README, _README.encode())

    def belongs_to(self, info: RunInfo) -> bool:
        """Whether this run wrote the folder."""
        try:
            found = json.loads(read_file(self.path, RUN_INFO))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(found, dict) and found.get("id") == info.id

    def save_info(self, info: RunInfo, status: RunStatus) -> None:
        """Replaces ``run_info.json`` in one piece."""
        self._write_info(info, status, replaces=True)

    def rewind(self, sizes: Mapping[str, int]) -> None:
        """Brings everything back to what it was at these sizes of the streams, and opens them.

        Raises:
            StartOver: When a stream is shorter than that.
        """
        for name, size in sizes.items():
            status = status_of(self.path, name)
            found = 0 if status is None else status.st_size
            if found < size:
                raise StartOver(f"{self.path / name} has {found} bytes; expected {size} at least")
        self._remove_indexed_after(sizes.get(INDEX, 0))
        for name in STREAMS:
            stream = open_file(self.path, name, "ab")
            self._streams[name] = stream
            stream.truncate(sizes.get(name, 0))
            stream.seek(0, os.SEEK_END)  # truncating leaves the position behind the end
        if not sizes.get(SCALARS):
            self.append(SCALARS, SCALAR_HEADER)

    def append(self, stream: str, lines: bytes) -> None:
        """Adds whole lines to a stream and hands them to the operating system."""
        self._streams[stream].write(lines)
        self._streams[stream].flush()
        self._unsynced.add(self.path / stream)

    def new_file(self, relative: str) -> Path:
        """Returns the path for a file whose index line is written; nothing is there, its folder is."""
        path = self.path / relative
        for folder in (path.parent.parent, path.parent):  # fails where the whole output was removed
            if not is_folder(self.path, folder.relative_to(self.path)):
                make_folders(self.path, folder.relative_to(self.path))
                self._unsynced_folders.add(folder.parent)
        remove_file(self.path, relative, missing_ok=True)  # writing in place would change what it may be linked to
        self._unsynced.add(path)
        self._unsynced_folders.add(path.parent)
        return path

    def sync(self) -> dict[str, int]:
        """Puts everything on the disk and returns the sizes of the streams.

        Raises:
            OSError: When it cannot be put there, or something was removed: what is written to it is seen by nobody.
            SinkError: When a stream was replaced by another file.
        """
        for path in self._unsynced:
            put_on_disk(path)
        for folder in self._unsynced_folders:
            with contextlib.suppress(OSError):  # not every file system can
                put_on_disk(folder)
        self._unsynced.clear()
        self._unsynced_folders.clear()
        sizes = {name: stream.tell() for name, stream in self._streams.items()}
        for name, size in sizes.items():
            if (self.path / name).stat().st_size != size:
                raise SinkError(f"sink 'local': {self.path / name} was replaced while it was written")
        return sizes

    def close(self) -> None:
        """Closes the streams, also after a failure."""
        for stream in self._streams.values():
            # What a full disk refused is refused again here; it is written anew from the last token.
            with contextlib.suppress(OSError):
                stream.close()
        self._streams.clear()

    def _claim_first(self, info: RunInfo) -> None:
        """Puts ``run_info.json`` there unless another run is faster, which may have begun in the same moment."""
        try:
            self._write_info(info, info.status, replaces=False)
        except FileExistsError:
            if not self.belongs_to(info):
                raise self._taken(RUN_INFO, info) from None

    def _write_info(self, info: RunInfo, status: RunStatus, *, replaces: bool) -> None:
        content = asdict(info) | {"status": status}
        text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
        write_atomically(self.path, RUN_INFO, text.encode(), sync="content", replaces=replaces)

    def _taken(self, name: str, info: RunInfo) -> SinkConfigError:
        return SinkConfigError(
            f"sink 'local': {self.path} holds {name!r}, which does not belong to run {info.name!r}; "
            "expected a separate folder for each run"
        )

    def _remove_indexed_after(self, offset: int) -> None:
        if status_of(self.path, INDEX) is None:
            return
        with open_file(self.path, INDEX) as stream:
            stream.seek(offset)
            for line in stream:
                if (relative := _indexed_path(line)) is not None:
                    with contextlib.suppress(UnsafeFileError):  # a link is not ours
                        remove_file(self.path, relative, missing_ok=True)
                    with contextlib.suppress(OSError):  # other files of that name stay
                        (self.path / relative).parent.rmdir()


def _indexed_path(line: bytes) -> PurePosixPath | None:
    """The path of an index line's file; None for a torn line and for paths that this sink does not make."""
    try:
        path = PurePosixPath(json.loads(line)["path"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    ours = len(path.parts) == 3 and path.parts[0] in FOLDERS.values() and ".." not in path.parts
    return path if ours else None
