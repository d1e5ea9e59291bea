"""Takes the measurements of one group of tensors step by step, and emits them once they are on the host."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from tracker_adapters.emitter import Emitter

from debuggers.summary_table import SummaryTable

OnTable: TypeAlias = Callable[[int, Sequence[str], SummaryTable], None]


class Measurement(Protocol):
    """What ``measure`` returns: a table that may still be on its way from a device."""

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        ...

    def resolve(self) -> SummaryTable:
        """Waits for the table and returns it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    step: int
    time_ns: int
    names: Sequence[str]
    measurement: Measurement


class SummaryStream:
    """Emits the measurements of a group, such as ``gradients``, in order.

    Histograms are called ``<group>/<name>``, scalars ``<group>/<name>/norm`` (Euclidean, over finite elements) and
    ``<group>/total_norm`` (of all tensors together). Steps and times are those of ``push``. On the host a measurement
    is there at once; one on CUDA is passed on by the first later call that finds it there, without waiting.

    A histogram covers ``histogram_every`` pushed steps and is emitted at the last of them. A step with other names
    than the one before ends a histogram early: each step is in exactly one.
    """

    def __init__(
        self,
        group: str,
        emitter: Emitter | None,
        *,
        histogram_every: int | None = 1,
        on_table: OnTable | None = None,
    ) -> None:
        """Sets it up.

        Args:
            group: Stands before every name.
            emitter: Where artifacts go; None for nowhere.
            histogram_every: Steps of a histogram; None for no histograms.
            on_table: Called with step, names and table of every measurement, once it is on the host.
        """
        self._group = group
        self._emitter = emitter
        self._histogram_every = histogram_every
        self._on_table = on_table
        self._waiting: deque[_Step] = deque()
        self._merged: SummaryTable | None = None
        self._merged_steps = 0
        self._last: _Step | None = None

    def push(self, step: int, names: Sequence[str], measurement: Measurement) -> None:
        """Takes a step's measurement; pass the same tuple of names each step. Waits for nothing."""
        self._waiting.append(_Step(step, time.time_ns(), names, measurement))
        self.poll()

    def poll(self) -> None:
        """Passes on what has arrived."""
        while self._waiting and self._waiting[0].measurement.ready():
            self._take(self._waiting.popleft())

    def drain(self) -> None:
        """Waits for everything, and emits the histogram that has begun."""
        while self._waiting:
            self._take(self._waiting.popleft())
        self._emit_histograms()

    def _take(self, entry: _Step) -> None:
        table = entry.measurement.resolve()
        if self._emitter is not None:
            norms = table.l2
            values = np.append(norms, np.linalg.norm(norms))
            names = _scalar_names(self._group, tuple(entry.names))
            self._emitter.scalars(names, values, step=entry.step, time_ns=entry.time_ns)
            if self._histogram_every is not None:
                self._merge(entry, table)
                if self._merged_steps >= self._histogram_every:
                    self._emit_histograms()
        if self._on_table is not None:
            self._on_table(entry.step, entry.names, table)

    def _merge(self, entry: _Step, table: SummaryTable) -> None:
        if self._last is not None and entry.names != self._last.names:
            self._emit_histograms()
        self._merged = table if self._merged is None else self._merged.merge(table)
        self._merged_steps += 1
        self._last = entry

    def _emit_histograms(self) -> None:
        if self._emitter is None or self._merged is None or self._last is None:
            return
        merged, self._merged, self._merged_steps = self._merged, None, 0
        names = _histogram_names(self._group, tuple(self._last.names))
        self._emitter.histograms(names, merged.columns, step=self._last.step, time_ns=self._last.time_ns)


# The emitter checks a tuple of names once, and knows it again.
@lru_cache(maxsize=256)
def _histogram_names(group: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{group}/{name}" for name in names)


@lru_cache(maxsize=256)
def _scalar_names(group: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return (*(f"{group}/{name}/norm" for name in names), f"{group}/total_norm")
