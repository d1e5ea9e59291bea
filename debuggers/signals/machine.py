"""Memory of the process and of its device, and where the time of a step goes."""

import time
from functools import cache
from pathlib import Path
from typing import Any

from debuggers.torch_import import torch

MEBIBYTE = 2.0**20


@cache
def _process() -> Any:
    import psutil

    return psutil.Process()


def memory_mb(device: torch.device | None) -> dict[str, float]:
    """Returns ``process_mb``, and ``device_mb`` of a CUDA device."""
    found = {"process_mb": _process().memory_info().rss / MEBIBYTE}
    if device is not None and device.type == "cuda":
        found["device_mb"] = torch.cuda.memory_allocated(device) / MEBIBYTE
    return found


_SCHEDULED = Path("/proc/thread-self/schedstat")
"""Of the kernel for this thread: nanoseconds that it ran, nanoseconds that it was ready and waited for a processor."""


def unqueued_s() -> float:
    """Returns the time of a clock that stands still while this thread waits for a processor; in seconds.

    On a machine that is too busy every part of a step takes longer: that is no wait for data. Where the kernel does
    not tell (only Linux does), it is ``time.perf_counter``. Differences mean something within one thread.
    """
    try:
        queued_ns = int(_SCHEDULED.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        queued_ns = 0
    return time.perf_counter() - queued_ns / 1e9


class DataTime:
    """The time between the end of a step and the next forward pass, as a share of the step's.

    Times of ``unqueued_s`` are those of the wait; the step's is of ``time.perf_counter``.
    """

    def __init__(self) -> None:
        self._ended_s: float | None = None
        self._ended_unqueued_s = 0.0
        self._spent_s = 0.0
        self._waited_s: float | None = None

    def forget(self) -> None:
        """Says that something else than training took time."""
        self._ended_s = self._waited_s = None

    def leave_out(self, spent_s: float) -> None:
        """Says that measuring took so many seconds since the step ended, in which the loop did not wait."""
        self._ended_unqueued_s += spent_s

    def begin(self, begun_s: float | None) -> None:
        """Takes when the step's forward pass began, by ``unqueued_s``; None if that is not known."""
        self._waited_s = None if begun_s is None or self._ended_s is None else begun_s - self._ended_unqueued_s

    def end(self, spent_s: float) -> float | None:
        """Ends a step; returns its share of waiting, or None.

        Args:
            spent_s: All time so far that measuring took.
        """
        now, ended_s, waited_s = time.perf_counter(), self._ended_s, self._waited_s
        measuring_s = spent_s - self._spent_s
        self._ended_s, self._ended_unqueued_s = now, unqueued_s()
        self._spent_s, self._waited_s = spent_s, None
        if ended_s is None or waited_s is None or now - ended_s <= measuring_s:
            return None
        return min(1.0, max(0.0, waited_s) / (now - ended_s - measuring_s))
