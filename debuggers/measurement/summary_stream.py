"""Emits what is measured step after step: norms of every step, and histograms merged over several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from tracker_adapters.emitter import Emitter

from debuggers.errors import DebuggerConfigError
from debuggers.measurement.arrival_queue import ArrivalQueue, Measurement
from debuggers.measurement.series_names import histogram_names, norm_names
from debuggers.measurement.summary_table import SummaryTable

OnTable: TypeAlias = Callable[[int, Sequence[str], SummaryTable], None]
_Names: TypeAlias = tuple[str, ...]


class SummaryStream:
    """The measurements of one group of tensors, such as all gradients.

    Emitted are, at every step, the norm of each tensor (Euclidean, over finite elements) and of all together, and
    histograms, under the names of ``debuggers.measurement.series_names``. What is emitted carries the step and the
    time at which it was measured; a histogram of several steps carries the last of them. Every step is in exactly one
    histogram of each of its names; names may come and go. Of sharded tensors the part on this rank is measured, as one
    alert says.
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
        if histogram_every is not None and histogram_every < 1:
            raise DebuggerConfigError(f"histogram_every is {histogram_every}; expected at least 1, or None")
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
            norms = table.l2
            values = np.append(norms, np.linalg.norm(norms))
            self._emitter.scalars(norm_names(self._group, names), values, step=step, time_ns=time_ns)
            if self._histogram_every is not None:
                self._window.add(step, names, table, time_ns)
                if self._window.steps >= self._histogram_every:
                    self._emit_histograms(self._emitter)
        if self._on_table is not None:
            self._on_table(step, names, table)

    def drain(self) -> None:
        """Hands on the rest, waiting for the device, and emits what is left of the histograms."""
        self._queue.drain()
        if self._emitter is not None:
            self._emit_histograms(self._emitter)

    def _say_shards(self, emitter: Emitter, step: int, table: SummaryTable) -> None:
        self._said_shards = True
        emitter.alert(
            "sharded_tensors",
            f"{int(table.local_shard.sum())} of {len(table)} {self._group} are sharded over ranks: their histograms "
            "and norms are of the part on this rank, since a look at the others would need a collective. The norm of "
            "the whole is the root of the sum of the squares of what the ranks store; a stability manager tells it",
            step=step,
            level="info",
        )

    def _resolve_and_take(self, step: int, names: _Names, measurement: Measurement, time_ns: int) -> None:
        self.take(step, names, measurement.resolve(), time_ns)

    def _emit_histograms(self, emitter: Emitter) -> None:
        window, self._window = self._window, _Window()
        if window.table is not None:
            names = histogram_names(self._group, window.names)
            emitter.histograms(names, window.table.columns, step=window.step, time_ns=window.time_ns)


class _Window:
    """The steps that become one histogram of each name."""

    def __init__(self) -> None:
        self.steps = self.step = self.time_ns = 0
        self.names: _Names = ()
        self.table: SummaryTable | None = None

    def add(self, step: int, names: _Names, table: SummaryTable, time_ns: int) -> None:
        self.steps += 1
        self.step, self.time_ns = step, time_ns
        if self.table is None:
            self.names, self.table = names, table
        elif names == self.names:
            self.table = self.table.merge(table)
        else:
            both = (*self.names, *names)
            self.names = tuple(dict.fromkeys(both))
            rows = {name: row for row, name in enumerate(self.names)}
            self.table = SummaryTable.concatenate([self.table, table]).grouped([rows[name] for name in both])
