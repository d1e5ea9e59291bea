"""A gate: a one-shot event that a signal handler may wait for or set."""

import contextlib
import threading
import time

POLL_INTERVAL_S = 0.1


class Gate:
    """Closed at first; once open it stays open.

    A ``threading.Event`` takes a lock in each of its methods: a signal handler or a ``__del__`` that interrupts one of
    them and calls another waits for itself. Here nothing is held that the interrupted call would have to let go first.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._latch = threading.Lock()
        self._latch.acquire()

    def open(self) -> None:
        """Opens the gate; everyone who waits goes on."""
        self.is_open = True
        self._release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the gate is open, for at most ``timeout`` seconds; None waits as long as it takes.

        Returns:
            Whether it is open.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_open:
            left = POLL_INTERVAL_S if deadline is None else min(POLL_INTERVAL_S, deadline - time.monotonic())
            # One who is interrupted between the next two calls keeps the latch; the others then see is_open.
            if left > 0 and self._latch.acquire(timeout=left):
                self._release()
            elif left <= 0:
                break
        return self.is_open

    def _release(self) -> None:
        with contextlib.suppress(RuntimeError):  # another one has just done it
            self._latch.release()
