"""The index of a remote run: which files are there, whole, under which checksum, and who writes the run."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from tracker_adapters.errors import NotARunError, RunError
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.store.layout import MANIFEST

INDEX = "sealed.json"
FORMAT = "stepscope-sealed"
VERSION = 1
PART_ENTRIES = 2000
"""So many entries go into an object of their own, which is written once: about 400 kB."""
READS = 3
"""A part that a live run has just replaced is looked for again, by the index that names its successor."""
_OF_ONE_MACHINE = (".lock", "-wal", "-shm", "-journal")
WRITER_SILENT_S = 180.0
"""A writer that was not seen for this long is taken for dead; it is seen every 30 s."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """One file of the run: its bytes, their SHA-256 in hexadecimal digits, and the object that holds them."""

    size: int
    sha256: str
    key: str


@dataclass(frozen=True, slots=True)
class Writer:
    """The machine that writes the run, and when it was last seen, in nanoseconds since the epoch by its own clock."""

    id: str
    host: str
    pid: int
    seen_ns: int

    @classmethod
    def here(cls, writer_id: str) -> Writer:
        """Returns this process as the writer of that name, seen now."""
        return cls(writer_id, socket.gethostname(), os.getpid(), time.time_ns())

    def is_seen(self) -> bool:
        """Whether it was seen lately; a clock that is ahead by as much makes no difference."""
        return abs(time.time_ns() - self.seen_ns) < WRITER_SILENT_S * 1e9


@dataclass(slots=True)
class SealedIndex:
    """What is there.

    ``manifest`` is the content of run.json. ``writer`` is None once the run has ended and everything is there;
    ``last_writer`` stays, so that a machine can tell whether its own copy is the newest one. ``parts`` are the objects
    that list most of ``files`` in a run with many, each with the paths that it lists.
    """

    manifest: dict[str, Any]
    files: dict[str, SealedFile] = field(default_factory=dict)
    writer: Writer | None = None
    last_writer: str = ""
    parts: dict[str, dict[str, SealedFile]] = field(default_factory=dict)

    def keys(self) -> set[str]:
        """Returns the objects that the index needs."""
        return {entry.key for entry in self.files.values()}.union(self.parts)

    def write(self, place: RemotePlace, changing: Callable[[str], None]) -> None:
        """Writes the index: full parts first, then what names them.

        Only what changed is written, so that an index of 100,000 files can be written every few seconds. The part of a
        file that changed is omitted, and its other files are listed again.

        Args:
            place: Where the run is.
            changing: Called with each part that is about to be made or left out.
        """
        for key in [key for key, part in self.parts.items() if not part.items() <= self.files.items()]:
            changing(key)
            del self.parts[key]
        in_parts = set().union(*self.parts.values())
        loose = {path: entry for path, entry in self.files.items() if path not in in_parts}
        while len(loose) >= PART_ENTRIES:
            part = dict(islice(loose.items(), PART_ENTRIES))
            content = json.dumps(_plain(part)).encode()
            key = f"sealed/{hashlib.sha256(content).hexdigest()}.json"
            changing(key)
            place.write(key, content)
            self.parts[key] = part
            for path in part:
                del loose[path]
        head = {
            "format": FORMAT,
            "version": VERSION,
            "manifest": self.manifest,
            "writer": self.writer and asdict(self.writer),
            "last_writer": self.last_writer,
            "parts": list(self.parts),
            "files": _plain(loose),
        }
        place.write(INDEX, json.dumps(head, indent=1).encode())


def is_copied(relative: str) -> bool:
    """Whether a file at this path in a run is ever listed: not what is about one machine, nor what the index replaces.

    Lower and upper case are one, as on some file systems.
    """
    path = PurePosixPath(relative.casefold())
    hidden = any(part.startswith(".") for part in path.parts)
    return not (hidden or path.name.endswith(_OF_ONE_MACHINE) or str(path) in (MANIFEST, INDEX))


def new_writer_id() -> str:
    """Returns a name that no other opening of a run has."""
    return secrets.token_hex(8)


def read_index(place: RemotePlace) -> SealedIndex | None:
    """Returns the index of the run at a place; None when there is none.

    Raises:
        NotARunError: When what is there is no index, or of a newer version.
        Exception: What the file system's client raises when it cannot be reached.
    """
    for _ in range(READS):
        index = read_head(place)
        if index is None:
            return None
        files: dict[str, SealedFile] = {}
        for key in index.parts:
            content = place.read(key)
            if content is None:  # replaced since
                break
            index.parts[key] = _part(place, key, content)
            files |= index.parts[key]
        else:
            index.files = files | index.files
            return index
    raise NotARunError(f"{place.url}/{INDEX} is damaged: {key} is not there")


def find_index(place: RemotePlace) -> SealedIndex | None:
    """Returns what ``read_index`` does, with one error for all that a file system's client can raise.

    Raises:
        RunError: Also when the place cannot be reached.
    """
    try:
        return read_index(place)
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"cannot read {place.url}: {error or repr(error)}") from error


def read_head(place: RemotePlace) -> SealedIndex | None:
    """Returns the index without the files that its parts list; see ``read_index``."""
    content = place.read(INDEX)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if found["format"] != FORMAT or found["version"] != VERSION:
            raise NotARunError(f"{place.url}/{INDEX} has version {found.get('version')!r}; expected {VERSION}")
        writer = Writer(**found["writer"]) if found["writer"] else None
        parts: dict[str, dict[str, SealedFile]] = {_checked(key): {} for key in found["parts"]}
        return SealedIndex(found["manifest"], _files(found["files"]), writer, found["last_writer"], parts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotARunError(f"{place.url}/{INDEX} is damaged: {error!r}") from error


def _part(place: RemotePlace, key: str, content: bytes) -> dict[str, SealedFile]:
    if PurePosixPath(key).stem != hashlib.sha256(content).hexdigest():
        raise NotARunError(f"{place.url}/{key} is damaged: its SHA-256 is not the one in its name")
    try:
        return _files(json.loads(content))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotARunError(f"{place.url}/{key} is damaged: {error!r}") from error


def _files(entries: Mapping[str, Any]) -> dict[str, SealedFile]:
    files = {_checked(path): SealedFile(**entry) for path, entry in entries.items()}
    for path, entry in files.items():
        _checked(entry.key)
        if not is_copied(path):
            raise ValueError(f"the path {path!r} is none that is ever copied")
    return files


def _plain(files: Mapping[str, SealedFile]) -> dict[str, dict[str, Any]]:
    return {path: {"size": entry.size, "sha256": entry.sha256, "key": entry.key} for path, entry in files.items()}


def _checked(path: str) -> str:
    """A path that stays in the run's folder: an index may come from anywhere."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or "\0" in path:
        raise ValueError(f"the path {path!r} leads out of the run")
    return path
