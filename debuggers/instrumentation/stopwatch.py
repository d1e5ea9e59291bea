"""Adds up the time that measuring takes."""

import time
from types import TracebackType
from typing import Self


class Stopwatch:
    """Seconds of wall time spent in its ``with`` blocks, on one thread; a block inside another counts once."""

    __slots__ = ("_depth", "_started", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started
