"""What the first worker makes for all workers of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

FOLDER = Path()
"""Where they share it; set when the tests begin."""


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Returns a folder that the first worker fills by ``make`` and nobody changes; the others wait for it."""
    folder = FOLDER / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder.with_suffix(".made")
        if not made.exists():
            folder.mkdir()
            make(folder)
            made.touch()
    return folder
