"""Waits for what another thread, process or server does, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(condition: Callable[[], object], timeout_s: float = 60.0, *, every_s: float = 0.02) -> float:
    """Waits until ``condition()`` holds, for what sets no event; returns the seconds that it took.

    Raises:
        AssertionError: It did not hold within ``timeout_s``.
    """
    start = time.monotonic()
    pause = threading.Event()
    while not condition():
        assert time.monotonic() - start < timeout_s, f"{condition} did not hold within {timeout_s} s"
        pause.wait(every_s)
    return time.monotonic() - start
