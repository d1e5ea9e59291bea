"""Hands on what was measured on a device, in the order of measuring, once it is on the host."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from debuggers.measurement.summary_table import SummaryTable


class Pending(Protocol):
    """Something that may still be on its way from a device."""

    def ready(self) -> bool:
        """Whether it has arrived."""
        ...


class Measurement(Pending, Protocol):
    """What ``measure`` returns: a table that may still be on its way from a device."""

    def resolve(self) -> SummaryTable:
        """Waits for the device and returns the summaries."""
        ...


class Arrived:
    """A measurement that is on the host."""

    __slots__ = ("_table",)

    def __init__(self, table: SummaryTable) -> None:
        self._table = table

    def ready(self) -> bool:
        """True."""
        return True

    def resolve(self) -> SummaryTable:
        """Returns the summaries."""
        return self._table


class ArrivalQueue:
    """Measurements that wait for their device, and what is to be done with each.

    It holds as many as the device lags behind, which CUDA itself bounds: its queue takes about 1,000 kernels, a few
    training steps.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Pending, Callable[[], None]]] = deque()

    def push(self, pending: Pending, take: Callable[[], None]) -> None:
        """Adds one, and takes all that have arrived, oldest first; waits for nothing.

        Args:
            pending: What to wait for.
            take: Called when it and all earlier ones have arrived.

        Raises:
            Exception: What ``take`` raised, or the device where one failed; the one that it was about is dropped.
        """
        self._waiting.append((pending, take))
        self.take_arrived()

    def take_arrived(self) -> None:
        """Takes all that have arrived, oldest first; waits for nothing, and raises what ``push`` does."""
        while self._waiting and self._first_is_ready():
            self._waiting.popleft()[1]()

    def drain(self) -> None:
        """Takes all, waiting for their devices.

        Raises:
            Exception: The first that a ``take`` raised, once all were taken.
        """
        failed: Exception | None = None
        while self._waiting:
            try:
                self._waiting.popleft()[1]()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _first_is_ready(self) -> bool:
        try:
            return self._waiting[0][0].ready()
        except Exception:
            self._waiting.popleft()  # or none behind it would ever be taken
            raise
