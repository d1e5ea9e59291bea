"""Emits what is measured step after step: norms of every step, and histograms merged over several."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np
from tracker_adapters.emitter import Emitter
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import DebuggerConfigError
from debuggers.measurement.arrival_queue import ArrivalQueue, Measurement
from debuggers.measurement.series_names import histogram_names, norm_names
from debuggers.measurement.summary_table import SummaryTable

OnTable: TypeAlias = Callable[[int, Sequence[str], SummaryTable], None]
_Names: TypeAlias = tuple[str, ...]
_AT_ONCE = 10
"""Steps to merge at once: a merge takes some thirty NumPy operations, however many steps there are."""
_MAX_HELD = 1 << 20
"""Bins that may wait to be merged, of ten bytes each."""


class SummaryStream:
    """The measurements of one group of tensors, such as all gradients.

    Emitted are, at every step, the Euclidean norm of each tensor and of all together, NaN where an element is not
    finite, and histograms, under the names of ``debuggers.measurement.series_names``. What is emitted carries the step
    and the time at which it was measured; a histogram of several steps carries the last of them. Every step is in
    exactly one histogram of each of its names; names may come and go. Of sharded tensors the part on this rank is
    measured, as one alert says.
    """

    def __init__(
        self,
        group: str,
        emitter: Emitter | None,
        *,
        histogram_every: int | None = 1,
        on_table: OnTable | None = None,
    ) -> None:
        """Says where the measurements go.

        Args:
            group: What the tensors are, in the plural, such as ``gradients``.
            emitter: Takes scalars and histograms; None emits nothing.
            histogram_every: How many steps that were pushed one histogram covers; None for scalars only.
            on_table: Called with step, names and table, after they were emitted.

        Raises:
            DebuggerConfigError: When ``histogram_every`` is below 1.
        """
        check_value("histogram_every", histogram_every, at_least(1) | None, DebuggerConfigError)
        self._group = group
        self._emitter = emitter
        self._histogram_every = histogram_every
        self._on_table = on_table
        self._queue = ArrivalQueue()
        self._said_shards = False
        self._window = _Window()

    def push(self, step: int, names: Sequence[str], measurement: Measurement) -> None:
        """Takes a step's measurement, and hands on in order whatever has arrived on the host; waits for no device.

        Args:
            step: The training step.
            names: One for each row, each once; the same tuple at each step costs least.
            measurement: What ``measure`` gave.
        """
        take = partial(self._resolve_and_take, step, tuple(names), measurement, time.time_ns())
        self._queue.push(measurement, take)

    def take(self, step: int, names: tuple[str, ...], table: SummaryTable, time_ns: int) -> None:
        """Emits a measurement that is on the host; ``time_ns`` is when it was made."""
        if self._emitter is not None:
            if not self._said_shards and table.local_shard.any():
                self._say_shards(self._emitter, step, table)
            norms = table.norms
            values = np.append(norms, math.sqrt(norms.dot(norms)))
            self._emitter.scalars(norm_names(self._group, names), values, step=step, time_ns=time_ns)
            if self._histogram_every is not None:
                self._window.add(step, names, table.columns, time_ns)
                if self._window.steps >= self._histogram_every:
                    self._emit_histograms(self._emitter)
        if self._on_table is not None:
            self._on_table(step, names, table)

    def drain(self) -> None:
        """Hands on the rest, waiting for the device, and emits what is left of the histograms."""
        try:
            self._queue.drain()
        finally:
            if self._emitter is not None:
                self._emit_histograms(self._emitter)

    def _say_shards(self, emitter: Emitter, step: int, table: SummaryTable) -> None:
        self._said_shards = True
        emitter.alert(
            "sharded_tensors",
            f"{int(table.local_shard.sum())} of {len(table)} {self._group} are sharded over ranks: their histograms "
            "and norms are those of this rank's part, because a global norm needs a collective. The global norm is the "
            "root of the sum of the squares of the norms of all ranks; a stability manager reports it",
            step=step,
            level="info",
        )

    def _resolve_and_take(self, step: int, names: _Names, measurement: Measurement, time_ns: int) -> None:
        self.take(step, names, measurement.resolve(), time_ns)

    def _emit_histograms(self, emitter: Emitter) -> None:
        window, self._window = self._window, _Window()
        if window.steps:
            names, columns = window.merged()
            names = histogram_names(self._group, names)
            emitter.histograms(names, columns, step=window.step, time_ns=window.time_ns)


class _Window:
    """The steps that become one histogram of each name."""

    def __init__(self) -> None:
        self.steps = self.step = self.time_ns = 0
        self._parts: list[tuple[_Names, HistogramColumns]] = []

    def add(self, step: int, names: _Names, columns: HistogramColumns, time_ns: int) -> None:
        self.steps += 1
        self.step, self.time_ns = step, time_ns
        self._parts.append((names, columns))
        if len(self._parts) == _AT_ONCE or sum(part.bins.size for _, part in self._parts) > _MAX_HELD:
            self._parts = [self.merged()]

    def merged(self) -> tuple[_Names, HistogramColumns]:
        """Merges in the order of the steps, which gives the same bits however many wait."""
        if len(self._parts) == 1:
            return self._parts[0]
        groups = [names for names, _ in self._parts]
        columns = HistogramColumns.joined([columns for _, columns in self._parts])
        first = groups[0]
        if all(names == first for names in groups):
            return first, columns.merged(np.tile(np.arange(len(first)), len(groups)))
        rows = {name: row for row, name in enumerate(dict.fromkeys(chain.from_iterable(groups)))}
        return tuple(rows), columns.merged(np.array([rows[name] for name in chain.from_iterable(groups)], np.int64))
