"""The index of a remote run: which files are there, whole, under which checksum, and who writes the run."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from tracker_adapters.errors import NotARunError
from tracker_adapters.remote.place import RemotePlace

INDEX = "sealed.json"
FORMAT = "stepscope-sealed"
VERSION = 1
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
    ``last_writer`` stays, so that a machine can tell whether its own copy is the newest one.
    """

    manifest: dict[str, Any]
    files: dict[str, SealedFile] = field(default_factory=dict)
    writer: Writer | None = None
    last_writer: str = ""

    def encoded(self) -> bytes:
        """Returns the index as JSON."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1).encode()


def new_writer_id() -> str:
    """Returns a name that no other opening of a run has."""
    return secrets.token_hex(8)


def read_index(place: RemotePlace) -> SealedIndex | None:
    """Returns the index of the run at a place; None when there is none.

    Raises:
        NotARunError: When what is there is no index, or of a newer version.
        Exception: What the file system's client raises when it cannot be reached.
    """
    content = place.read(INDEX)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if found["format"] != FORMAT or found["version"] != VERSION:
            raise NotARunError(f"{place.url}/{INDEX} has version {found.get('version')!r}; expected {VERSION}")
        files = {_checked(path): SealedFile(**entry) for path, entry in found["files"].items()}
        for entry in files.values():
            _checked(entry.key)
        writer = Writer(**found["writer"]) if found["writer"] else None
        return SealedIndex(found["manifest"], files, writer, found["last_writer"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotARunError(f"{place.url}/{INDEX} is damaged: {error!r}") from error


def _checked(path: str) -> str:
    """A path that stays in the run's folder: an index may come from anywhere."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts or "\0" in path:
        raise ValueError(f"the path {path!r} leads out of the run")
    return path
