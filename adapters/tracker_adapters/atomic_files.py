"""Atomic writes: a file or folder is filled under a hidden name beside its own, and renamed when it is complete.

A process that is killed meanwhile leaves at most what it filled, under a name that ends in ``.part``.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, Literal, TypeAlias

from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.safe_files import link_file, move_file, open_file, remove_file, status_of

Sync: TypeAlias = Literal["nothing", "content", "name"]
"""What a power cut cannot undo.

- ``nothing``: it may leave the file damaged; for what is checked where it is read and can be made again.
- ``content``: it leaves the old file or the new one, whole.
- ``name``: it leaves the new one.
"""
_UNFINISHED = re.compile(r"\.(?P<name>.+?)(?:\.[0-9a-f]{8})?\.part", re.DOTALL)


def put_on_disk(path: Path) -> None:
    """Waits until a file, or what a folder lists, is on the disk, where a power cut leaves it.

    Raises:
        OSError: When it cannot be put there; some file systems cannot with folders.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(
    folder: Path, relative: str | PurePath, *, sync: Sync, replaces: bool = True, permissions: int = 0o644
) -> Iterator[BinaryIO]:
    """Opens a new file for the block, which gets its name at the end; an exception leaves what was there before.

    A file that is replaced hands on its permissions.

    Args:
        folder: The folder; see ``safe_files`` for what it may be.
        relative: The file's path below it, in a folder that exists.
        sync: What a power cut cannot undo.
        replaces: Whether it replaces what has its name.
        permissions: Those of a new file, less the umask.

    Raises:
        FileExistsError: At the end, when something has the name and is not to be replaced.
        UnsafeFileError: When the path leads out of the folder.
        OSError: When it cannot be written.
    """
    with (
        atomic_path(folder, relative, sync=sync, replaces=replaces) as path,
        open_file(folder, path.relative_to(folder), "xb", permissions=permissions) as stream,
    ):
        _take_permissions(stream, folder, relative)
        yield stream


def write_atomically(
    folder: Path, relative: str | PurePath, content: bytes, *, sync: Sync, replaces: bool = True
) -> None:
    """Writes a file in one piece; see ``atomic_file``."""
    with atomic_file(folder, relative, sync=sync, replaces=replaces) as stream:
        stream.write(content)


@contextmanager
def atomic_path(folder: Path, relative: str | PurePath, *, sync: Sync, replaces: bool = True) -> Iterator[Path]:
    """Yields a path for the block to make a file at, as ``atomic_file`` for what takes no open file."""
    with unfinished(folder, relative) as temporary:
        yield folder / temporary
        if sync != "nothing":
            put_on_disk(folder / temporary)
        give_name(folder, temporary, relative, replaces=replaces)
    if sync == "name":
        put_on_disk((folder / relative).parent)


@contextmanager
def unfinished(folder: Path, relative: str | PurePath) -> Iterator[PurePath]:
    """Yields an unused path below a folder beside another one, and removes the file that is left there at the end."""
    temporary = PurePath(relative).with_name(_unfinished_name(PurePath(relative).name))
    try:
        yield temporary
    finally:
        remove_file(folder, temporary, missing_ok=True)


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """Makes a folder beside a path, for the block to fill and rename; what is left of it at the end is removed."""
    temporary = target.with_name(_unfinished_name(target.name))
    temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def give_name(folder: Path, temporary: PurePath, relative: str | PurePath, *, replaces: bool) -> None:
    """Gives a file below a folder another name there.

    Raises:
        FileExistsError: When something has the name and is not to be replaced: of several that try at the same moment,
            one gets it, where the file system has hard links.
    """
    if not replaces:
        try:
            link_file(folder / temporary, folder, relative)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(folder / relative):
                raise FileExistsError(f"{folder / relative} exists") from None
        else:
            remove_file(folder, temporary)
            return
    move_file(folder, temporary, relative)


def finished_name(name: str) -> str | None:
    """Returns the name that an unfinished file or folder was to get; None for the name of a finished one."""
    match = _UNFINISHED.fullmatch(name)
    return match and match["name"]


def _unfinished_name(name: str) -> str:
    return f".{name}.{secrets.token_hex(4)}.part"


def _take_permissions(stream: BinaryIO, folder: Path, relative: str | PurePath) -> None:
    with suppress(OSError, UnsafeFileError):  # a link hands on none, and some file systems have none
        if (status := status_of(folder, relative)) is not None:
            os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
