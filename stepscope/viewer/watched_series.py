"""Series that were read, kept within a limit in bytes: of a live run only what is new is read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tracker_adapters.store.reading.record import RunRecord, ScalarRows

MAX_BYTES = 32 * 1024 * 1024
_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Series:
    """One scalar of the latest attempts by step: steps int64, times_ms and values float64, all of shape (n,).

    ``last_seq`` is the number up to which was read, ``attempt`` the last one that recorded something.
    """

    steps: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
    last_seq: int
    attempt: int

    @classmethod
    def of(cls, rows: ScalarRows) -> Series:
        """Returns what counts of the rows of all steps."""
        order = rows.latest()
        attempt = int(rows.attempts.max(initial=0))
        return cls(rows.steps[order], rows.times_ns[order] / 1e6, rows.values[order], rows.last_seq, attempt)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.steps.nbytes + self.times_ms.nbytes + self.values.nbytes

    def with_new(self, rows: ScalarRows) -> Series | None:
        """Returns the series with rows that came since; None where they may replace some of its own."""
        if not len(rows):
            return replace(self, last_seq=rows.last_seq)
        if (rows.attempts != self.attempt).any():
            return None
        import numpy as np

        steps = np.concatenate([self.steps, rows.steps])
        times_ms = np.concatenate([self.times_ms, rows.times_ns / 1e6])
        values = np.concatenate([self.values, rows.values])
        if (np.diff(steps[max(0, len(self.steps) - 1) :]) < 0).any():
            order = np.argsort(steps, kind="stable")
            steps, times_ms, values = steps[order], times_ms[order], values[order]
        return Series(steps, times_ms, values, rows.last_seq, self.attempt)


class KeptSeries:
    """The series that were asked for last, by run, name and rank; used from any thread."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Series] = OrderedDict()
        self.nbytes = 0

    def has(self, run: str, name: str, rank: int) -> bool:
        """Whether a series is kept, so that reading it again is quick."""
        return (run, name, rank) in self._kept

    def read(self, run: str, record: RunRecord, name: str, rank: int) -> Series:
        """Returns a series as it is now; raises as ``RunRecord.scalar_rows``."""
        from tracker_adapters.store.reading.record import RowsWanted

        key = (run, name, rank)
        with self._lock:
            known = self._kept.get(key)
        found = None
        if known is not None:
            found = known.with_new(record.scalar_rows(name, rank, RowsWanted(after=known.last_seq)))
        if found is None:
            found = Series.of(record.scalar_rows(name, rank))
        with self._lock:
            self._drop(key)
            self._kept[key] = found
            self.nbytes += found.nbytes
            while self.nbytes > self._max_bytes and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))
        return found

    def forget(self, run: str) -> None:
        """Drops the series of a run: another one may lie at its place."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == run]:
                self._drop(key)

    def _drop(self, key: _Key) -> None:
        dropped = self._kept.pop(key, None)
        self.nbytes -= 0 if dropped is None else dropped.nbytes
