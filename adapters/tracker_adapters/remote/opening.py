"""Opens a run whose folder is a URL or lies on a network file system, for writing."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from tracker_adapters.errors import RunBusyError, RunError, RunExistsError
from tracker_adapters.remote.download import Download
from tracker_adapters.remote.local_copy import PRIVATE, Home, written_copy
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.process import UploadProcess
from tracker_adapters.remote.sealed import INDEX, SealedIndex, Writer, new_writer_id, read_index
from tracker_adapters.store.layout import MANIFEST
from tracker_adapters.store.manifest import load_manifest

logger = logging.getLogger(__name__)


class RemoteRun:
    """A run at a place, prepared in ``folder``; ``start`` claims the place and starts to copy."""

    def __init__(self, url: str, *, resume: bool) -> None:
        """Checks that the place can be written, and brings here what a resumed run needs.

        Raises:
            RunExistsError: When there is a run and ``resume`` is false.
            RunBusyError: When another machine writes to it.
            RunError: When the place cannot be written or reached.
            MissingPackageError: When a package that the URL needs is not installed.
        """
        self.place = RemotePlace(url)
        self.folder = written_copy(self.place.url)
        self.place.check_writable()
        index = _read(self.place)
        if index is None:
            if self.place.read(MANIFEST) is not None:
                raise RunExistsError(
                    f"{self.place.url} holds a run that was written in place, or is being made; choose another folder, "
                    "or set STEPSCOPE_LOCAL_STORE=never to go on with it there"
                )
            return
        if not resume:
            raise RunExistsError(
                f"{self.place.url} already holds a run; pass resume=True to go on with it, or choose another folder"
            )
        self._check_free(index)
        home = Home.load(self.folder)
        if home is None or home.writer != index.last_writer:
            self._bring(index)

    def start(self) -> UploadProcess:
        """Makes this machine the run's writer and starts the process that copies.

        Raises:
            RunError: When the place cannot be written.
        """
        home = Home(self.place.url, new_writer_id())
        home.save(self.folder)
        index = _read(self.place) or SealedIndex(manifest={})
        index.writer, index.last_writer = Writer.here(home.writer), home.writer
        try:
            self.place.write(INDEX, index.encoded())
        except Exception as error:
            raise RunError(f"cannot write to {self.place.url}: {error or repr(error)}") from error
        return UploadProcess(self.folder, home)

    def _check_free(self, index: SealedIndex) -> None:
        writer, here = index.writer, Writer.here("")
        if writer is None or writer.host == here.host:  # on this host, the lock of the local copy tells
            return
        seconds = (time.time_ns() - writer.seen_ns) / 1e9
        if writer.is_seen():
            raise RunBusyError(
                f"{writer.host} (process {writer.pid}) writes to {self.place.url}, last seen {seconds:.0f} s ago; "
                "stop it, or wait three minutes if it has gone"
            )
        logger.warning(
            "%s was the last to write to %s and has not ended the run; it was last seen %.0f s ago. What it had not "
            "copied is not here",
            writer.host,
            self.place.url,
            seconds,
        )

    def _bring(self, index: SealedIndex) -> None:
        """Downloads the run; an older copy on this machine is put aside, since it may hold what was never copied."""
        if (self.folder / MANIFEST).exists():
            aside = self.folder.with_name(f"{self.folder.name}.replaced-{time.time_ns()}")
            self.folder.rename(aside)
            logger.warning("another machine went on with %s; the older copy here is now %s", self.place.url, aside)
        if not index.manifest:
            raise RunError(f"{self.place.url} was claimed by {index.writer}, but nothing of the run was copied to it")
        Download(self.place, self.folder, index).fetch()


def _read(place: RemotePlace) -> SealedIndex | None:
    try:
        return read_index(place)
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"cannot read {place.url}: {error or repr(error)}") from error


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
    index = _read(place)
    if index is not None and index.manifest.get("id") not in (None, manifest.info.id):
        raise RunExistsError(f"{place.url} holds another run; choose another place")
    home = Home(place.url, new_writer_id())
    index = index or SealedIndex(manifest={})
    index.writer, index.last_writer = Writer.here(home.writer), home.writer
    place.write(INDEX, index.encoded())
    (folder / PRIVATE / "copied.json").unlink(missing_ok=True)
    home.save(folder)
    return home
