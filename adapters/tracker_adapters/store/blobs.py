"""Files kept under their checksum, each once."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracker_adapters.store.layout import blob_path

COPY_BYTES = 1024 * 1024


def store_bytes(run_folder: Path, content: bytes) -> str:
    """Keeps ``content`` and returns its SHA-256."""
    sha256 = hashlib.sha256(content).hexdigest()
    target = blob_path(run_folder, sha256)
    if not _refreshed(target):
        with _temporary(target) as temporary:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
    return sha256


def adopt_file(run_folder: Path, source: Path, sha256: str, *, link: bool) -> str:
    """Keeps the file ``source`` and returns the SHA-256 under which it lies.

    Args:
        run_folder: The run.
        source: The file.
        sha256: Its checksum when it was emitted, in hexadecimal digits. A file that changed since is kept as it was
            copied, under the checksum of that.
        link: Whether a hard link may stand for a copy: only for files that are never changed again.
    """
    target = blob_path(run_folder, sha256)
    if _refreshed(target):
        return sha256
    with _temporary(target) as temporary:
        if not (link and _link(source, temporary)):
            sha256 = _copy(source, temporary)
            target = blob_path(run_folder, sha256)
            target.parent.mkdir(exist_ok=True)
        temporary.replace(target)
    return sha256


def _refreshed(target: Path) -> bool:
    """Whether the file lies there; it then counts as new, and is not removed before its row is committed."""
    try:
        times = target.stat()
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    except FileNotFoundError:
        return False
    return True


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        return False
    return True


def _copy(source: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(COPY_BYTES):
            digest.update(chunk)
            writing.write(chunk)
    return digest.hexdigest()


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to fill and move there; what a failure leaves is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
