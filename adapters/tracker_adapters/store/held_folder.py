"""A folder that is held open, so that it can be told from another one at its path."""

from __future__ import annotations

import os
from pathlib import Path

from tracker_adapters.fork_safe import finalize


def lies_at(fd: int, path: Path) -> bool | None:
    """Whether an open file or folder still lies at a path: False if another one does, None if none does."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return None


class HeldFolder:
    """Knows whether a folder was moved, deleted or replaced.

    It is held open because its number alone would not do: some network file systems give a new one to a folder that
    nobody holds.
    """

    def __init__(self, path: Path) -> None:
        """Opens the folder.

        Raises:
            OSError: When there is none that can be read.
        """
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._finalizer = finalize(self, os.close, self._fd)
        self._finalizer.atexit = False  # what ends a process may still ask, and the system closes it

    @property
    def identity(self) -> tuple[int, int]:
        """Its device and number, which another process compares with those of the folder that it finds at the path."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    @property
    def is_in_place(self) -> bool:
        """Whether the folder still lies at its path; unknown, and False, after ``close``."""
        return self._finalizer.alive and lies_at(self._fd, self._path) is True

    @property
    def is_replaced(self) -> bool:
        """Whether another one lies at its path. One that was only moved away, or deleted, may come back."""
        return self._finalizer.alive and lies_at(self._fd, self._path) is False

    def close(self) -> None:
        """Lets go, as deleting the object does; does nothing the second time."""
        self._finalizer()
