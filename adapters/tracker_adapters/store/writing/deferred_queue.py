"""Builds deferred artifacts, such as a picture to be encoded, while everything else is committed."""

import time
from collections import Counter, deque
from collections.abc import Callable, Generator

from tracker_adapters.artifacts import Artifact, Histogram, Scalar
from tracker_adapters.recording import Block, Deferred, HistogramBlock, ScalarBlock
from tracker_adapters.store.writing.emit_queue import Barrier, Item, Sized

_Series = tuple[str, str]


class DeferredQueue:
    """Builds deferred artifacts in their order, a few milliseconds at a time. Used by the thread that commits.

    What has the kind and name of one that waits here waits behind it, so that each name keeps its order; so does a
    barrier. Everything else passes.
    """

    def __init__(self, failed: Callable[[Sized, Exception], None]) -> None:
        """``failed`` is told what could not be built."""
        self._failed = failed
        self._waiting: deque[Item] = deque()
        self._series: Counter[_Series] = Counter()
        self._building: Generator[bool, None, Artifact] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def sort(self, items: list[Item]) -> list[Item]:
        """Returns what need not wait; the rest stays here."""
        if not self._waiting and not any(isinstance(item, Sized) and isinstance(item.item, Deferred) for item in items):
            return items
        passing: list[Item] = []
        for item in items:
            if self._must_wait(item):
                self._waiting.append(item)
                self._series.update(_series_of(item))
            else:
                passing.append(item)
        return passing

    def advance(self, until: float) -> list[Item]:
        """Builds until ``time.monotonic()`` is ``until``, or what is next waits for a device; returns what is ready."""
        ready: list[Item] = []
        while self._waiting and time.monotonic() < until:
            item = self._waiting[0]
            built: Item | None = item
            if isinstance(item, Sized) and isinstance(item.item, Deferred):
                try:
                    if self._building is None:
                        self._building = item.item.building()
                    if not next(self._building):
                        time.sleep(max(0.0, min(0.001, until - time.monotonic())))
                    continue
                except StopIteration as done:
                    built = Sized(done.value, item.nbytes, item.count)
                except Exception as error:
                    self._failed(item, error)
                    built = None
                self._building = None
            self._waiting.popleft()
            self._series -= Counter(_series_of(item))
            if built is not None:
                ready.append(built)
        return ready

    def _must_wait(self, item: Item) -> bool:
        if isinstance(item, Barrier):
            return bool(self._waiting)
        if isinstance(item, Sized) and isinstance(item.item, Deferred):
            return True
        return bool(self._series) and any(series in self._series for series in _series_of(item))


def _series_of(item: Item) -> list[_Series]:
    if isinstance(item, tuple):
        return [(Scalar.kind, item[0])]
    if isinstance(item, Barrier):
        return []
    held: Artifact | Deferred | Block = item.item
    if isinstance(held, ScalarBlock):
        return [(Scalar.kind, name) for name in held.names]
    if isinstance(held, HistogramBlock):
        return [(Histogram.kind, name) for name in held.names]
    return [(held.kind, held.name)]
