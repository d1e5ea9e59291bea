"""Keeps the results of the last inspections, and passes each on once, in order."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Annotated

from msgspec import Meta
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import DebuggerConfigError
from debuggers.tensors.info import TensorInfo
from debuggers.tensors.inspection import PendingInspection

OnResult = Callable[[TensorInfo, HistogramColumns | None], None]
_Age = Annotated[float, Meta(ge=0, description="seconds of at least 0, or a timedelta")]


@dataclass(slots=True)
class _Entry:
    since: float
    pending: PendingInspection | None
    info: TensorInfo | None = None


class TrackedTensors:
    """At most ``limit`` results by id; ``dropped`` counts those that were dropped for newer ones.

    Each result is handed to ``on_result`` when it has arrived on the host, also after it was dropped.
    """

    def __init__(self, limit: int, on_result: OnResult) -> None:
        """Sets the limit.

        Raises:
            DebuggerConfigError: Unless it is a whole number of at least 1.
        """
        check_value("max_tracked_tensors", limit, at_least(1), DebuggerConfigError)
        self.dropped = 0
        self._limit = limit
        self._on_result = on_result
        self._entries: dict[int, _Entry] = {}
        self._waiting: deque[_Entry] = deque()

    def add(self, tensor_id: int, pending: PendingInspection) -> None:
        """Takes an inspection, and hands on what has arrived."""
        entry = _Entry(monotonic(), pending)
        self._entries[tensor_id] = entry
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
            self.dropped += 1
        self._waiting.append(entry)
        while self._waiting and ((first := self._waiting[0].pending) is None or first.ready()):
            self._take_first()

    def get(self, tensor_id: int) -> TensorInfo | None:
        """Returns a result, waiting for its device; None if it is not kept."""
        entry = self._entries.get(tensor_id)
        return None if entry is None else self._wait_for(entry)

    def all(self) -> list[TensorInfo]:
        """Returns all that are kept, the oldest first; waits for their devices."""
        return [self._wait_for(entry) for entry in list(self._entries.values())]

    def clear(self, older_than: float | timedelta | None) -> int:
        """Forgets those of at least this age, in seconds, or all of them; returns how many.

        Raises:
            ArtifactError: For an age that is negative, NaN or no number.
        """
        age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        check_value("clear: older_than", age, _Age | None, ArtifactError)
        latest = monotonic() - (age or 0.0)
        kept = {key: entry for key, entry in self._entries.items() if entry.since > latest}
        cleared = len(self._entries) - len(kept)
        self._entries = kept
        return cleared

    def drain(self) -> None:
        """Waits for everything and hands it on."""
        while self._waiting:
            self._take_first()

    def _wait_for(self, entry: _Entry) -> TensorInfo:
        while entry.info is None:  # what came before is handed on before
            self._take_first()
        return entry.info

    def _take_first(self) -> None:
        entry = self._waiting.popleft()
        if entry.pending is None:
            return
        entry.info, columns = entry.pending.resolve()
        entry.pending = None
        self._on_result(entry.info, columns)
