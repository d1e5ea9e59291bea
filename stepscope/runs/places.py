"""Where a run lies: in a local folder, or at a URL or on a network file system with a local copy."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tracker_adapters.errors import RunError
from tracker_adapters.remote.file_systems import why_not_here
from tracker_adapters.remote.local_copy import written_copy
from tracker_adapters.remote.place import is_url

if TYPE_CHECKING:
    from tracker_adapters.remote.opening import RemoteRun
    from tracker_adapters.store.reading.record import RunRecord

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """``folder`` holds the run while it is written, ``output`` is where sinks put theirs by default.

    ``url`` is where the folder is copied to, empty when it stays where it is. ``number`` was put behind the name
    because that was taken; 1 if nothing was.
    """

    folder: Path
    output: Path
    name: str
    url: str = ""
    number: int = 1

    @property
    def shown(self) -> str:
        """What people are told: the URL, or the path as it is called from the working folder, if it is in there."""
        return self.url or str(short_path(self.folder))

    def beside(self, name: str) -> RunPlace:
        """Returns the place of that name in the same folder."""
        if not self.url:
            return RunPlace(self.folder.with_name(name), self.output.with_name(name), name)
        url = f"{self.url.rpartition('/')[0]}/{name}"
        folder = written_copy(url)
        is_copied_file_system = self.output != self.folder
        return RunPlace(folder, self.output.with_name(name) if is_copied_file_system else folder, name, url)

    def opened(self, *, resume: bool) -> RemoteRun | None:
        """Prepares the local copy of a run that is copied; see ``RemoteRun`` for what is raised."""
        if not self.url:
            return None
        from tracker_adapters.remote.opening import RemoteRun

        return RemoteRun(self.url, resume=resume)


def place_of(path: object) -> RunPlace:
    """Returns where a run with this path lies.

    Raises:
        RunError: For another type, or a URL without a path.
    """
    local = local_path(path)
    if local is None:
        url = str(path).rstrip("/")
        if not url.rpartition("://")[2]:
            raise RunError(f"path is {path!r}; expected the URL of the run's folder, such as s3://bucket/runs/exp1")
        folder = written_copy(url)
        return RunPlace(folder, folder, url.rpartition("/")[2], url)
    try:
        reason = why_not_here(local)
    except (OSError, ValueError):  # it is impossible, or cannot be looked at: opening it says so
        reason = ""
    if not reason:
        return RunPlace(local, local, local.name)
    url = local.as_uri()
    folder = written_copy(url)
    logger.warning("the run in %s is written in %s and copied, segment by segment, since %s", local, folder, reason)
    return RunPlace(folder, local, local.name, url)


def open_record(path: object) -> RunRecord:
    """Opens a run for reading, at a path or a URL."""
    local = local_path(path)
    if local is not None:
        from tracker_adapters.store.reading.record import RunRecord

        return RunRecord(local)
    from tracker_adapters.remote.record import read_remote

    return read_remote(str(path))


def fetch_run(path: str | PathLike[str]) -> Path:
    """Returns a run's folder on this machine; a run at a URL is downloaded whole."""
    local = local_path(path)
    if local is not None:
        return local
    from tracker_adapters.remote.record import localize

    with localize(str(path)) as record:
        return record.path


def short_path(path: Path) -> Path:
    """Returns a path as it is called from the working folder, if it is in there."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):  # it lies elsewhere, or the working folder was removed
        return path


def local_path(path: object) -> Path | None:
    """Returns a path on this machine, which a file URL names too; None for another URL.

    Raises:
        RunError: For another type, and for an empty path.
    """
    if not isinstance(path, (str, PathLike)):
        raise RunError(f"path is {type(path).__name__} {path!r}; expected the path of the run's folder, or its URL")
    if path == "":
        raise RunError("path is ''; expected the path of the run's folder, or its URL")
    if not is_url(path):
        return _absolute(_with_home(Path(path)))
    parts = urlsplit(str(path))
    return _absolute(Path(unquote(parts.path))) if parts.scheme == "file" else None


def _with_home(path: Path) -> Path:
    """A path that begins with ``~`` in the user's own folder: no shell has read it."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise RunError(f"path is {str(path)!r}, and {error}; expected a path without ~") from error


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError as error:
        raise RunError(
            f"path is {str(path)!r}, and the working folder was removed; expected an absolute path"
        ) from error
