"""How long a thread has waited inside a call, without counting the time in which it worked or had no processor."""

import threading
import time
from pathlib import Path


class IdleClock:
    """Started and stopped by the thread that calls; read by another one.

    On a busy machine a delivery process gets little of a processor. That it is slow then is no reason to give up on the
    sink, so what the kernel counts as running or as waiting for a processor is taken off (Linux,
    ``/proc/self/task/<thread>/schedstat``; elsewhere all time counts).
    """

    def __init__(self) -> None:
        self.what = ""
        """Which call runs; empty between calls."""
        self._lock = threading.Lock()
        self._started = 0.0
        self._busy_before = 0.0
        self._thread = 0

    def start(self, what: str) -> None:
        """Notes that the current thread enters a call."""
        with self._lock:
            self._thread = threading.get_native_id()
            self._started, self._busy_before = time.monotonic(), _busy_seconds(self._thread)
            self.what = what

    def restart(self) -> None:
        """Notes that the current call got an answer from its tracker; called by the thread that makes it."""
        with self._lock:
            self._started, self._busy_before = time.monotonic(), _busy_seconds(self._thread)

    def stop(self) -> None:
        """Notes that the call returned."""
        with self._lock:
            self.what = ""

    def seconds(self) -> float:
        """Returns how long the current call has been idle; 0 between calls."""
        with self._lock:
            if not self.what:
                return 0.0
            waited = time.monotonic() - self._started - (_busy_seconds(self._thread) - self._busy_before)
            return max(0.0, waited)  # the two clocks are read one after the other


def _busy_seconds(thread: int) -> float:
    try:
        running, waiting, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0.0
    return (int(running) + int(waiting)) / 1e9
