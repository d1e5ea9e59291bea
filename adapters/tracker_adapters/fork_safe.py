"""Finalizers and temporary folders that only the process that made them ends: a forked child has copies of them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self


class OwnerProcess:
    """The process that something was made in."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether this is that process, and no forked child of it."""
        return os.getpid() == self._pid


def finalize(thing: object, work: Callable[..., object], *args: Any) -> weakref.finalize[..., Any]:
    """Does work when ``thing`` is collected or the interpreter ends, as ``weakref.finalize``; not in forked children.

    ``work`` and ``args`` must not refer to ``thing``.
    """
    return weakref.finalize(thing, _do_here, OwnerProcess(), work, args)


def _do_here(owner: OwnerProcess, work: Callable[..., object], args: tuple[Any, ...]) -> None:
    if owner.is_current:
        work(*args)


class TemporaryFolder:
    """A temporary folder that lives until ``remove``, the end of a ``with`` block, of this object or of its process.

    Unlike ``tempfile.TemporaryDirectory`` it outlives a forked child that ends meanwhile.

    Attributes:
        path: Where it lies.
        owner_process: The process that removes it.
    """

    def __init__(self, prefix: str, *, suffix: str = "", parent: Path | None = None) -> None:
        """Makes the folder.

        Args:
            prefix: What its name begins with.
            suffix: What its name ends with.
            parent: Where it is made; the system's folder for temporary files by default.

        Raises:
            OSError: When it cannot be made.
        """
        self.path = Path(tempfile.mkdtemp(suffix, prefix, parent))
        self.owner_process = OwnerProcess()
        self._removal = finalize(self, _remove, self.path)

    def remove(self) -> None:
        """Removes the folder and what is in it, as far as that can be done; in a forked child it does nothing."""
        self._removal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
