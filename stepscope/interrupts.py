"""Has Ctrl-C wait while something is made that would be left half made."""

import inspect
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Holds Ctrl-C back until the block has ended, and then does what it does.

    Only the main thread gets it; elsewhere, and where it does nothing or ends the process at once, the block just runs.

    Raises:
        KeyboardInterrupt: After the block, when Ctrl-C came in it and Python's own handler is in place.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    # Not the frame: it would keep alive what is in use there, such as a cursor of the database.
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(came[0], inspect.currentframe())
