"""Waits for what another thread, process or server does, with a deadline."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


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


def in_threads(function: Callable[..., object], arguments: Iterable[object], timeout_s: float = 60.0) -> None:
    """Calls a function with each argument in a thread of its own, and waits for all of them.

    Raises:
        AssertionError: A call did not end within ``timeout_s``.
    """
    threads = [threading.Thread(target=function, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
        assert not thread.is_alive(), f"{function} did not end within {timeout_s} s"


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Has the interpreter switch between threads as often as it can, so that races show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
