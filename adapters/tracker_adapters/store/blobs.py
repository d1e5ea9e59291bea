"""Content-addressed files: each is stored once under its SHA-256, which is checked when it is read."""

import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from tracker_adapters.atomic_files import unfinished, write_atomically
from tracker_adapters.errors import DamagedError
from tracker_adapters.safe_files import (
    link_file,
    make_folders,
    move_file,
    open_descriptor,
    open_file,
    read_file,
    status_of,
)
from tracker_adapters.store.layout import blob_name

COPY_BYTES = 1024 * 1024
MAX_BLOB_BYTES = 4 * 1024**3
"""What is read as a whole; pages and files may be larger."""
CHECKED_FIRST_BYTES = 64 * 1024**2
"""What is larger is checked piece by piece before it is read as a whole: damage must take no memory."""


def store_bytes(run_folder: Path, content: bytes) -> str:
    """Keeps ``content`` and returns its SHA-256."""
    sha256 = hashlib.sha256(content).hexdigest()
    if not _refreshed(run_folder, sha256):
        _make_folder(run_folder, sha256)
        write_atomically(run_folder, blob_name(sha256), content, sync="content")
    return sha256


def read_blob(run_folder: Path, sha256: str, *, max_bytes: int = MAX_BLOB_BYTES) -> bytes:
    """Returns what is kept under a checksum.

    Raises:
        DamagedError: When it is something else, or ``sha256`` is no checksum.
        UnsafeFileError: When it is not a regular file, leads out of the run's folder, or is larger than ``max_bytes``.
        FileNotFoundError: When it is gone.
    """
    size = blob_size(run_folder, sha256)
    if size is not None and CHECKED_FIRST_BYTES < size <= max_bytes:
        check_blob(run_folder, sha256, size)
    content = read_file(run_folder, blob_name(sha256), max_bytes=max_bytes)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _damaged(run_folder, sha256)
    return content


def check_blob(run_folder: Path, sha256: str, size: int) -> None:
    """Reads what is kept under a checksum, of any size, and raises as ``read_blob`` when it is something else.

    Nothing is read of what does not have ``size`` bytes: it may be a sparse file, which has any size for nothing.
    """
    with open_file(run_folder, blob_name(sha256)) as stream:
        _check_size(run_folder, sha256, stream, size)
        if hashlib.file_digest(cast("BufferedReader", stream), "sha256").hexdigest() != sha256:
            raise _damaged(run_folder, sha256)


def copy_blob(run_folder: Path, sha256: str, target: BinaryIO, size: int) -> None:
    """Copies what is kept under a checksum; raises as ``check_blob``, perhaps with some of it copied."""
    digest = hashlib.sha256()
    with open_file(run_folder, blob_name(sha256)) as stream:
        _check_size(run_folder, sha256, stream, size)
        while chunk := stream.read(COPY_BYTES):
            digest.update(chunk)
            target.write(chunk)
    if digest.hexdigest() != sha256:
        raise _damaged(run_folder, sha256)


def blob_size(run_folder: Path, sha256: str) -> int | None:
    """Returns the size of what is kept under a checksum, in bytes; None when it is gone. Raises as ``read_blob``."""
    status = status_of(run_folder, blob_name(sha256))
    return None if status is None else status.st_size


def adopt_file(run_folder: Path, source: Path, sha256: str, *, link: bool) -> str:
    """Keeps the file ``source`` and returns the SHA-256 under which it lies.

    A copy can be read by nobody who could not read the file.

    Args:
        run_folder: The run.
        source: The file.
        sha256: Its checksum when it was emitted, in hexadecimal digits. A file that changed since is kept as it was
            copied, under the checksum of that.
        link: Whether a hard link may stand for a copy: only for files that are never changed again.
    """
    if _refreshed(run_folder, sha256):
        return sha256
    _make_folder(run_folder, sha256)
    with unfinished(run_folder, blob_name(sha256)) as temporary:
        if not (link and _link(source, run_folder, temporary)):
            sha256 = _copy(source, run_folder, temporary)
            _make_folder(run_folder, sha256)
        move_file(run_folder, temporary, blob_name(sha256))
    return sha256


def _refreshed(run_folder: Path, sha256: str) -> bool:
    """Whether the file lies there; it then counts as new, and is not removed before its row is committed."""
    try:
        descriptor = open_descriptor(run_folder, blob_name(sha256))
    except FileNotFoundError:
        return False
    try:
        times = os.fstat(descriptor)
        os.utime(descriptor, ns=(times.st_atime_ns, times.st_mtime_ns))
    finally:
        os.close(descriptor)
    return True


def _link(source: Path, run_folder: Path, target: PurePath) -> bool:
    try:
        link_file(source, run_folder, target)
    except OSError:  # another file system, or one without links
        return False
    return True


def _copy(source: Path, run_folder: Path, target: PurePath) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reading:
        permissions = stat.S_IMODE(os.fstat(reading.fileno()).st_mode) & 0o644
        with open_file(run_folder, target, "xb", permissions=permissions | stat.S_IRUSR) as writing:
            while chunk := reading.read(COPY_BYTES):
                digest.update(chunk)
                writing.write(chunk)
    return digest.hexdigest()


def _make_folder(run_folder: Path, sha256: str) -> None:
    make_folders(run_folder, PurePath(blob_name(sha256)).parent)


def _check_size(run_folder: Path, sha256: str, stream: BinaryIO, expected: int) -> None:
    size = os.fstat(stream.fileno()).st_size
    if size != expected:
        raise DamagedError(f"{run_folder / blob_name(sha256)} is damaged: it has {size} bytes; expected {expected}")


def _damaged(run_folder: Path, sha256: str) -> DamagedError:
    return DamagedError(f"{run_folder / blob_name(sha256)} is damaged: its content has another checksum")
