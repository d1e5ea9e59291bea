"""Opens, makes and removes files below a folder, and never follows a link out of it.

What lies in a run's folder may come from somebody else: an archive, a shared disk. Each part of a path below the folder
is opened relative to the one before, without following links, and only regular files are opened. The folder itself is
the one that the user named: it may be a link.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, Literal, TypeAlias

from tracker_adapters.errors import UnsafeFileError

Mode: TypeAlias = Literal["rb", "r+b", "ab", "xb", "wb"]
MAX_BYTES = 256 * 1024 * 1024
"""What a file may hold that is read as a whole."""
_END_OF_A_NAME = bytes.fromhex("d9d505f920a163d7")
"""With which a rollback journal ends that names another file: https://www.sqlite.org/fileformat.html#the_rollback_journal."""
# A pipe blocks whoever opens it until somebody writes, unless O_NONBLOCK says otherwise.
_ALWAYS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FLAGS: dict[str, int] = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "wb": os.O_WRONLY | os.O_CREAT,
}
# What opening a link, a pipe that nobody reads, a folder or a socket for a regular file says (EMLINK: FreeBSD).
_NOT_REGULAR = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR, errno.EOPNOTSUPP})
_NO_FOLDER = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})


def open_descriptor(folder: Path, relative: str | PurePath, flags: int = os.O_RDONLY, *, mode: int = 0o644) -> int:
    """Returns the descriptor of a regular file below a folder, as ``os.open`` does.

    Args:
        folder: The folder; it may be a link.
        relative: The file's path below it.
        flags: Those of ``os.open``; links are never followed.
        mode: The permissions of a new file, less the umask.

    Raises:
        UnsafeFileError: When the path leads out of the folder, or to anything but a regular file.
        OSError: As ``os.open``, such as FileNotFoundError.
    """
    with place_of(folder, relative) as place:
        return place.opened(flags, mode=mode)


class Place:
    """A path below a folder, whose parent is open: what is asked for it several times finds the same parent."""

    def __init__(self, folder: str, parent: int, name: str) -> None:
        """Takes the path of its parent, for messages, the descriptor of the parent, and the name in it."""
        self._path, self._parent, self._name = f"{folder}/{name}", parent, name

    def opened(self, flags: int = os.O_RDONLY, *, mode: int = 0o644) -> int:
        """Returns the descriptor of the file; see ``open_descriptor``."""
        try:
            descriptor = os.open(self._name, flags | _ALWAYS, mode, dir_fd=self._parent)
        except OSError as error:
            if error.errno in _NOT_REGULAR:
                raise _unsafe(self._path, "not a regular file") from error
            error.filename = self._path
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _unsafe(self._path, "not a regular file")
        return descriptor

    def present(self, suffixes: Iterable[str]) -> list[str]:
        """Returns the suffixes with which the path is a regular file's; raises UnsafeFileError for anything else."""
        found = []
        for suffix in suffixes:
            try:
                status = os.stat(f"{self._name}{suffix}", dir_fd=self._parent, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise _unsafe(f"{self._path}{suffix}", "not a regular file")
            found.append(suffix)
        return found


class Folder:
    """A folder below a folder, which is open: what is asked for several of its names finds the same folder."""

    def __init__(self, path: str, descriptor: int) -> None:
        """Takes the path, for messages, and the descriptor."""
        self._path, self._descriptor = path, descriptor

    def names(self) -> list[str]:
        """Returns the names in it, in no order."""
        return os.listdir(self._descriptor)  # noqa: PTH208 - a descriptor

    def place(self, name: str) -> Place:
        """Returns where one of its names is."""
        return Place(self._path, self._descriptor, name)

    def has_folder(self, name: str) -> bool:
        """Whether one of its names is that of a folder, which may be opened, and of no link."""
        try:
            os.close(os.open(name, _FOLDER, dir_fd=self._descriptor))
        except OSError:
            return False
        return True


@contextmanager
def folder_of(folder: Path, relative: str | PurePath) -> Iterator[Folder]:
    """Opens a folder below a folder for the block.

    Raises:
        UnsafeFileError: When it, or one on the way, is a link or no folder.
        OSError: As ``os.open``.
    """
    with _descended(folder, _parts(folder, relative)) as descriptor:
        yield Folder(f"{folder}/{relative}", descriptor)


@contextmanager
def place_of(folder: Path, relative: str | PurePath) -> Iterator[Place]:
    """Opens the parent of a path below a folder for the block; raises as ``open_descriptor``."""
    *folders, name = _parts(folder, relative)
    with _descended(folder, folders) as parent:
        yield Place("/".join([str(folder), *folders]), parent, name)


def open_file(folder: Path, relative: str | PurePath, mode: Mode = "rb", *, permissions: int = 0o644) -> BinaryIO:
    """Opens a regular file below a folder; see ``open_descriptor``. ``permissions`` are those of a new file.

    A file that is opened for writing and has another name somewhere, by a hard link, becomes a copy of its own first:
    what has the other name is not changed.
    """
    descriptor = open_descriptor(folder, relative, _FLAGS[mode], mode=permissions)
    if mode != "rb" and os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        give_own_copy(folder, relative)
        descriptor = open_descriptor(folder, relative, _FLAGS[mode], mode=permissions)
    try:
        if mode == "wb":  # cut only once it is known to be a regular file
            os.ftruncate(descriptor, 0)
        return open(descriptor, mode)  # noqa: PTH123 - a descriptor, for the caller to close
    except BaseException:
        os.close(descriptor)
        raise


def read_file(folder: Path, relative: str | PurePath, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns what a regular file below a folder holds.

    Raises:
        UnsafeFileError: Also when it holds more than ``max_bytes``.
        OSError: As ``os.open``.
    """
    with open_file(folder, relative) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > max_bytes:
            raise _unsafe(Path(folder, relative), f"larger than {max_bytes} bytes")
        return stream.read(size)  # what is asked for is allocated first


def write_file(folder: Path, relative: str | PurePath, content: bytes) -> None:
    """Writes a new file below a folder, and removes what has its name: that may be a link, or linked to something."""
    remove_file(folder, relative, missing_ok=True)
    with open_file(folder, relative, "xb") as stream:
        stream.write(content)


def make_folders(folder: Path, relative: str | PurePath) -> Path:
    """Makes a folder below a folder, with those between, where they do not exist; returns its path."""
    with _descended(folder, _parts(folder, relative), make=True):
        return Path(folder, relative)


def remove_file(folder: Path, relative: str | PurePath, *, missing_ok: bool = False) -> None:
    """Removes a file below a folder; of a link, the link."""
    with suppress(FileNotFoundError) if missing_ok else nullcontext(), _parent(folder, relative) as (parent, name):
        os.unlink(name, dir_fd=parent)


def move_file(folder: Path, source: str | PurePath, target: str | PurePath) -> None:
    """Gives a file below a folder another name below it, and replaces what has that name."""
    with _parent(folder, source) as (old, old_name), _parent(folder, target) as (new, new_name):
        os.replace(old_name, new_name, src_dir_fd=old, dst_dir_fd=new)


def link_file(source: Path, folder: Path, relative: str | PurePath) -> None:
    """Makes a hard link below a folder to a file from anywhere; of a link, to the file that it stands for."""
    with _parent(folder, relative) as (parent, name):
        os.link(os.path.realpath(source), name, dst_dir_fd=parent)


def status_of(folder: Path, relative: str | PurePath) -> os.stat_result | None:
    """Returns the status of a regular file below a folder; None when nothing is there.

    Raises:
        UnsafeFileError: When there is anything else, or a link on the way.
    """
    try:
        with _parent(folder, relative) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(Path(folder, relative), "not a regular file")
    return status


def is_folder(folder: Path, relative: str | PurePath) -> bool:
    """Whether a folder lies there, and no link on the way to it."""
    try:
        with _descended(folder, _parts(folder, relative)):
            return True
    except OSError:
        return False


def check_way(folder: Path, path: Path) -> None:
    """Checks a path for something that opens it by name: below ``folder`` no part of it may be a link.

    A path elsewhere, parts that do not exist, and a ``folder`` that is none, are left as they are.

    Raises:
        UnsafeFileError: When one is.
    """
    if folder != path and path.is_relative_to(folder):
        absent = suppress(FileNotFoundError, NotADirectoryError)
        with absent, _parent(folder, path.relative_to(folder)) as (parent, name):
            if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise _unsafe(path, "a link")


def check_journal(folder: Path, relative: str | PurePath) -> None:
    """Checks SQLite's rollback journal before its database is opened; one that is not there is fine.

    A journal may end in the name of a file that several databases were changed with. SQLite deletes that file, wherever
    it is, once it has put the database right. Nothing here changes several databases at once.

    Raises:
        UnsafeFileError: When it names another file, or is not a regular file.
    """
    with suppress(FileNotFoundError), open_file(folder, relative) as journal:
        journal.seek(max(0, journal.seek(0, os.SEEK_END) - len(_END_OF_A_NAME)))
        if journal.read() == _END_OF_A_NAME:
            path = Path(folder, relative)
            raise UnsafeFileError(f"{path} names another file, which SQLite would delete; no run has such a journal")


def files_below(folder: Path, relative: str | PurePath) -> Iterator[tuple[PurePath, os.stat_result]]:
    """Yields the path below ``folder`` and the status of each regular file in a folder below it; links are passed over.

    What goes meanwhile is left out.
    """
    with suppress(FileNotFoundError, UnsafeFileError), _descended(folder, _parts(folder, relative)) as top:
        for here, _, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            for name in names:
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield PurePath(relative, here, name), status


def names_in(folder: Path, relative: str | PurePath) -> list[str]:
    """Returns the names in a folder below a folder, in no order; none when it does not exist or is a link."""
    with suppress(FileNotFoundError, UnsafeFileError), folder_of(folder, relative) as found:
        return found.names()
    return []


def give_own_copy(folder: Path, relative: str | PurePath) -> None:
    """Replaces a regular file below a folder by a copy of it that has no other name, with the same permissions.

    Raises:
        UnsafeFileError: As ``open_descriptor``.
        OSError: When there is none, or no room for a copy; it is as it was then.
    """
    copy = f"{relative}.{secrets.token_hex(4)}.new"
    with open_file(folder, relative) as shared:
        permissions = stat.S_IMODE(os.fstat(shared.fileno()).st_mode)
        try:
            with open_file(folder, copy, "xb", permissions=permissions) as own:
                shutil.copyfileobj(shared, own)
            move_file(folder, copy, relative)
        except BaseException:
            remove_file(folder, copy, missing_ok=True)
            raise


@contextmanager
def _parent(folder: Path, relative: str | PurePath) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that a path below ``folder`` ends in, and its last part."""
    *folders, name = _parts(folder, relative)
    with _descended(folder, folders) as descriptor:
        yield descriptor, name


@contextmanager
def _descended(folder: Path, parts: list[str], *, make: bool = False) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            try:
                below = os.open(part, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                path = Path(folder, *parts[: number + 1])
                if error.errno in _NO_FOLDER:
                    raise _unsafe(path, "a link or not a folder") from error
                error.filename = str(path)
                raise
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _parts(folder: Path, relative: str | PurePath) -> list[str]:
    path = str(relative)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise _unsafe(path, f"no path below {folder}")
    return parts


def _unsafe(path: str | PurePath, what: str) -> UnsafeFileError:
    return UnsafeFileError(
        f"{path} is {what}; expected a regular file, and no links to it: nothing outside of a run's folder is accessed"
    )
