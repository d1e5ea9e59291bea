"""Says that a start or an end waits for a folder, which lies on a slow file system, and measures how slow it is."""

from __future__ import annotations

import os
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracker_adapters.remote.place import is_url
from tracker_adapters.terminal_text import printable_line, say

TELL_AFTER_S = 5.0
"""A folder on a disk lets nobody wait for a second; after some seconds people ask whether the training hangs."""
CHANGES_OF_A_START = 100
"""About as often is a file made, written, renamed or removed when a run with two sinks is opened."""
_CONTENT = b"x" * 100


@contextmanager
def told_when_slow(doing: str, place: str | os.PathLike[str], *, rank: int = 0) -> Iterator[Callable[[str], None]]:
    """Says once on standard error that the block waits, when it has for ``TELL_AFTER_S``.

    Args:
        doing: What waits: ``opening the run``.
        place: The folder or URL.
        rank: Whose line it is.

    Yields:
        A function that takes what is waited for from now on, by default the file system of the place.
    """
    measure = shlex.join(["stepscope", "doctor", os.fspath(place)])
    waits_for = ["its place to answer" if is_url(place) else f"its file system; to measure it: {measure}"]

    def tell() -> None:
        seconds = f"{TELL_AFTER_S:g} s"
        say(printable_line(f"{doing} in {os.fspath(place)} has waited {seconds} for {waits_for[0]}"), rank=rank)

    timer = threading.Timer(TELL_AFTER_S, tell)
    timer.daemon = True
    with suppress(RuntimeError):  # when the interpreter ends, no thread begins any more
        timer.start()
    try:
        yield lambda what: waits_for.__setitem__(0, what)
    finally:
        timer.cancel()
        if timer.is_alive():  # it ends at once, but where nobody reads standard error
            timer.join(1.0)


def existing(place: Path) -> Path:
    """Returns the folder of an absolute path, or the nearest one above it that exists."""
    return next(one for one in (place, *place.parents) if one.is_dir() or one == one.parent)


def seconds_of_a_change(folder: Path) -> float:
    """Returns the mean time in seconds of the changes when a file is made, written, renamed and removed in a folder.

    Raises:
        OSError: When nothing can be written there.
    """
    first = folder / f".stepscope-probe-{secrets.token_hex(4)}"
    second = first.with_suffix(".renamed")
    began = time.monotonic()
    try:
        first.touch()
        first.write_bytes(_CONTENT)
        first.rename(second)
        second.unlink()
        return (time.monotonic() - began) / 4
    finally:
        for one in (first, second):
            with suppress(OSError):
                one.unlink()
