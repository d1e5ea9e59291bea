"""An OS lock on a file, which is released when its process ends, however that happens."""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from pathlib import Path

from tracker_adapters.safe_files import open_descriptor
from tracker_adapters.store.held_folder import lies_at
from tracker_adapters.store.layout import below_run

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """An exclusive lock that one process holds; a forked child lets go of its copy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Takes the lock if it is free; returns whether this object holds it now."""
        if self._fd is not None:
            return True
        fd = open_descriptor(*below_run(self.path), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._fd = fd
        _held.add(self)
        return True

    def acquire_within(self, seconds: float) -> bool:
        """Waits for the lock, which a reader that probes it holds for an instant; returns whether it is held now."""
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    @property
    def is_in_place(self) -> bool:
        """Whether the held file still lies at the path; it does not when its folder was deleted or moved."""
        return self._fd is not None and lies_at(self._fd, self.path) is True

    def release(self) -> None:
        """Lets go; does nothing when the lock is not held."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def is_locked(path: Path) -> bool:
    """Whether a live process holds the lock at ``path``."""
    try:
        fd = open_descriptor(*below_run(path))
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def _let_go_in_forked_child() -> None:
    # flock belongs to the open file, which a fork shares: a surviving data-loader worker would keep the run locked.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_forked_child)
