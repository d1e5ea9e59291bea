"""Memory of the process and of its device, and where the time of a step goes."""

import math
import threading
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


class _Busy(threading.local):
    """In which time sessions of this thread trained or measured: none of them waited for data then.

    Attributes:
        seconds: All of it so far.
        ended_s: When the latest step of any of them ended, by ``time.perf_counter``.
    """

    seconds = 0.0
    ended_s = math.inf

    def end_step(self, now_s: float, took_s: float | None) -> None:
        """Takes a step's end, and how long it took from its forward pass on.

        Where that is not known, all time since the latest step counts: a wait that is not certain is none.
        """
        self.seconds += max(0.0, now_s - self.ended_s if took_s is None else took_s)
        self.ended_s = now_s


_BUSY = _Busy()


class DataTime:
    """The time between the end of a step and the next forward pass, as a share of the step's.

    Steps that other sessions of the thread take in between, each from its forward pass on, are no wait. Times of
    ``unqueued_s`` are those of the wait; the step's is of ``time.perf_counter``.
    """

    def __init__(self) -> None:
        self._ended_s: float | None = None
        self._ended_unqueued_s = self._ended_busy_s = 0.0
        self._spent_s = 0.0
        self._begun_s: float | None = None
        self._waited_s: float | None = None

    def forget(self) -> None:
        """Says that something else than training took time."""
        self._ended_s = self._begun_s = self._waited_s = None

    def leave_out(self, spent_s: float) -> None:
        """Says that measuring took so many seconds since the step ended, in which no loop of the thread waited."""
        _BUSY.seconds += spent_s

    def begin(self, begun_s: float | None) -> None:
        """Takes when the step's forward pass began, by ``unqueued_s``; None if that is not known."""
        self._begun_s = begun_s
        if begun_s is None or self._ended_s is None:
            self._waited_s = None
        else:
            self._waited_s = begun_s - self._ended_unqueued_s - (_BUSY.seconds - self._ended_busy_s)

    def pass_by(self) -> None:
        """Says that a step ended whose waiting is not measured."""
        _BUSY.end_step(time.perf_counter(), None)

    def end(self, spent_s: float) -> float | None:
        """Ends a step; returns its share of waiting, or None.

        Args:
            spent_s: All time so far that measuring took.
        """
        now, unqueued = time.perf_counter(), unqueued_s()
        ended_s, begun_s, waited_s = self._ended_s, self._begun_s, self._waited_s
        _BUSY.end_step(now, None if begun_s is None else unqueued - begun_s)
        measuring_s = spent_s - self._spent_s
        self._ended_s, self._ended_unqueued_s, self._ended_busy_s = now, unqueued, _BUSY.seconds
        self._spent_s, self._begun_s, self._waited_s = spent_s, None, None
        if ended_s is None or waited_s is None or now - ended_s <= measuring_s:
            return None
        return min(1.0, max(0.0, waited_s) / (now - ended_s - measuring_s))
