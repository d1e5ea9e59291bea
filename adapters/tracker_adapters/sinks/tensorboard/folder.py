"""Where a run's event file lies: TensorBoard shows a folder as one run, and follows one file in it."""

import hashlib
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tracker_adapters.atomic_files import put_on_disk
from tracker_adapters.sink import RunInfo, StartOver
from tracker_adapters.sinks.tensorboard.event_file import EventFile

_OURS = re.compile(r"events\.out\.tfevents\.(?P<seconds>\d+)\..*\.stepscope-(?P<run>[0-9a-f]{12})")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class EventFolder:
    """The target folder, or one in it that is named after the run where another run of ours has the target.

    Args:
        target: The sink's target.
        info: The run.
    """

    def __init__(self, target: Path, info: RunInfo) -> None:
        self.target = target
        self._mark = hashlib.sha256(info.id.encode()).hexdigest()[:12]
        readable = _UNSAFE.sub("_", info.name)[:60].strip("_") or "run"
        self._own = target / f"{readable}-{self._mark}"

    def create(self) -> EventFile:
        """Makes a new file whose name sorts behind every one that this run has.

        TensorBoard recognises a new file by its name, and looks for it behind the one that it follows.
        """
        earlier = self._files()
        home = earlier[-1].parent if earlier else self.target
        if home == self.target and self._is_taken():
            home = self._own
        file = self._new_file(home, earlier)
        if home == self.target and self._is_taken():  # by a run that began at the same moment: at least one gives way
            file.close()
            file.path.unlink()
            file = self._new_file(self._own, earlier)
        return file

    def remove_all_but(self, kept: Path | None) -> None:
        """Removes the files that this run left here, other than ``kept``."""
        for path in self._files():
            if path != kept:
                path.unlink(missing_ok=True)

    def named(self, name: str) -> str:
        """Returns a name that ``relative`` gave to one of this run's files; raises StartOver for any other."""
        path = PurePosixPath(name)
        found = _OURS.fullmatch(path.name)
        in_own = len(path.parts) == 2 and path.parts[0].endswith(f"-{self._mark}")
        if found is None or found["run"] != self._mark or not (len(path.parts) == 1 or in_own):
            raise StartOver(f"{name!r} is no event file of this run")
        return name

    def relative(self, path: Path) -> str:
        """The path of a file of ours as a token says it."""
        return path.relative_to(self.target).as_posix()

    def _files(self) -> list[Path]:
        folders = (self.target, *self.target.glob(f"*-{self._mark}"))  # it may have had another name
        return sorted((path for path in _ours(folders) if path.name.endswith(self._mark)), key=_seconds)

    def _is_taken(self) -> bool:
        return any(not path.name.endswith(self._mark) for path in _ours((self.target,)))

    def _new_file(self, folder: Path, earlier: Iterable[Path]) -> EventFile:
        folder.mkdir(parents=True, exist_ok=True)
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        # The clock may have been put back since.
        seconds = max([seconds, *(_seconds(path) + 1 for path in earlier)])
        host = socket.gethostname().replace("/", "_")[:64]
        file = EventFile.create(
            folder / f"events.out.tfevents.{seconds}.{host}.{nanoseconds:09d}.stepscope-{self._mark}"
        )
        with suppress(OSError):  # not every file system can
            put_on_disk(folder)
        return file


def _ours(folders: Iterable[Path]) -> list[Path]:
    """The event files of stepscope's runs."""
    return [
        path
        for folder in folders
        if folder.is_dir() and not folder.is_symlink()
        for path in folder.iterdir()
        if _OURS.fullmatch(path.name)
    ]


def _seconds(path: Path) -> int:
    match = _OURS.fullmatch(path.name)
    return int(match["seconds"]) if match else 0
