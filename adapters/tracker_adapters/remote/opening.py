"""Opens a run whose folder is a URL or lies on a network file system, for writing."""

import argparse
import json
import logging
import subprocess
import sys
import time
from pathlib import Path

from tracker_adapters import errors
from tracker_adapters.child_process import answer_of
from tracker_adapters.errors import RunBusyError, RunError, RunExistsError, StepscopeError
from tracker_adapters.remote.claim import claim
from tracker_adapters.remote.download import Download
from tracker_adapters.remote.leftovers import Leftovers
from tracker_adapters.remote.local_copy import Home, written_copy
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.process import UploadProcess
from tracker_adapters.remote.sealed import SealedIndex, Writer, find_index, new_writer_id
from tracker_adapters.safe_files import remove_file
from tracker_adapters.store.layout import MANIFEST, PRIVATE
from tracker_adapters.store.manifest import load_manifest

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 60.0
RESUME_TIMEOUT_S = 3600.0
"""A resumed run may have to be downloaded first."""


class RemoteRun:
    """A run at a place, prepared in ``folder`` by a process of its own; ``start`` starts to copy.

    Clients of object stores bring threads, which must not live in a training process that forks.
    """

    def __init__(self, url: str, *, resume: bool) -> None:
        """Checks that the place can be written, and brings here what a resumed run needs.

        Raises:
            RunExistsError: When there is a run and ``resume`` is false.
            RunBusyError: When another machine writes to it.
            RunError: When the place cannot be written or reached, or does not respond within a minute.
            MissingPackageError: When a package that the URL needs is not installed.
        """
        self._url = url.rstrip("/")
        self.folder = written_copy(self._url)
        self._base = _prepared_elsewhere(self._url, resume=resume)

    def start(self) -> UploadProcess:
        """Starts the process that makes this machine the run's writer and copies."""
        home = Home(self._url, new_writer_id(), self._base)
        home.save(self.folder)
        return UploadProcess(self.folder, home)


def prepare(url: str, *, resume: bool) -> str:
    """Does what ``RemoteRun`` needs of the place; returns the name of the run's last writer, empty for a new run."""
    place = RemotePlace(url)
    folder = written_copy(place.url)
    place.check_writable()
    index = find_index(place)
    if index is None:
        if place.read(MANIFEST) is not None:
            raise RunExistsError(
                f"{place.url} holds a run that was written in place, or is being made; choose another folder, "
                "or set STEPSCOPE_LOCAL_STORE=never to continue it there"
            )
        if not resume:
            claim(place)
        return ""
    if not resume:
        raise RunExistsError(
            f"{place.url} already holds a run; pass resume=True to continue it, or choose another folder"
        )
    _check_free(place, index)
    home = Home.load(folder)
    if home is None or not home.is_newest(index.last_writer):
        _bring(place, folder, index)
    return index.last_writer


def _prepared_elsewhere(url: str, *, resume: bool) -> str:
    limit = RESUME_TIMEOUT_S if resume else OPEN_TIMEOUT_S
    options = ["--resume"] if resume else []
    try:
        printed = answer_of("tracker_adapters.remote.opening", url, *options, timeout_s=limit)
        answer = json.loads(printed.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise RunError(f"{url} does not respond within {limit:.0f} s") from None
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise RunError(f"cannot prepare the run at {url}: {error}") from error
    for line in answer["warnings"]:
        logger.warning("%s", line)
    if "error" in answer:
        raise getattr(errors, answer["error"], RunError)(answer["message"])
    base: str = answer["base"]
    return base


def main() -> None:
    """Prepares a run, and prints what became of it as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m tracker_adapters.remote.opening", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        answer: dict[str, object] = {"base": prepare(arguments.url, resume=arguments.resume)}
    except Exception as error:  # clients raise errors of their own
        name = type(error).__name__ if isinstance(error, StepscopeError) else "RunError"
        answer = {"error": name, "message": str(error) or repr(error)}
    sys.stdout.write(json.dumps({**answer, "warnings": warnings}) + "\n")


def _check_free(place: RemotePlace, index: SealedIndex) -> None:
    writer, here = index.writer, Writer.here("")
    if writer is None or writer.host == here.host:  # on this host, the lock of the local copy tells
        return
    seconds = (time.time_ns() - writer.seen_ns) / 1e9
    if writer.is_seen():
        raise RunBusyError(
            f"{writer.host} (process {writer.pid}) writes to {place.url}, last seen {seconds:.0f} s ago; "
            "stop it, or wait three minutes if it has ended"
        )
    logger.warning(
        "%s was the last to write to %s and did not end the run; it was last seen %.0f s ago. Files that it had not "
        "uploaded are missing here",
        writer.host,
        place.url,
        seconds,
    )


def _bring(place: RemotePlace, folder: Path, index: SealedIndex) -> None:
    """Downloads the run; an older copy on this machine is put aside, since it may hold what was never copied."""
    if (folder / MANIFEST).exists():
        aside = folder.with_name(f"{folder.name}.replaced-{time.time_ns()}")
        folder.rename(aside)
        logger.warning("another machine has continued %s; the older copy here was renamed to %s", place.url, aside)
    if not index.manifest:
        raise RunError(f"{place.url} was claimed by {index.writer}, but nothing of the run was copied to it")
    Download(place, folder, index).fetch()


def upload_existing(folder: Path, url: str | None) -> Home:
    """Prepares a run that exists to be copied; returns where to.

    Args:
        folder: The run's folder.
        url: Its place; None for the one that it has.

    Raises:
        NotARunError: When the folder holds no run.
        RunExistsError: When another run is at the place.
        RunError: When it has no place and none is given, or the place cannot be written.
    """
    manifest = load_manifest(folder)
    home = Home.load(folder)
    if home is not None and url in (None, home.url):
        return home
    if url is None:
        raise RunError(f"{folder} has no place yet; expected a URL to copy it to")
    place = RemotePlace(url)
    place.check_writable()
    index = find_index(place)
    if index is not None and index.manifest.get("id") not in (None, manifest.info.id):
        raise RunExistsError(f"{place.url} holds another run; choose another place")
    home = Home(place.url, new_writer_id(), "" if index is None else index.last_writer)
    remove_file(folder, f"{PRIVATE}/copied.json", missing_ok=True)
    Leftovers.forget(folder)
    home.save(folder)
    return home


if __name__ == "__main__":
    main()
