"""Puts measurements that were made one after the other together to one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tracker_adapters.histogram_columns import HistogramColumns

from debuggers.measurement import PendingSummaries
from debuggers.summary_table import SummaryTable
from debuggers.tensor_summary import TensorSummary


class JoinedSummaries:
    """Many measurements of one step as one, with the same ``ready`` and ``resolve``.

    Attributes:
        names: The name of each row, each once. Rows that were measured under one name are merged.
    """

    __slots__ = ("_parts", "_row_names", "names")

    def __init__(self, row_names: Sequence[str], parts: Sequence[PendingSummaries]) -> None:
        """Joins measurements.

        Args:
            row_names: The names of all rows of all parts, in order.
            parts: The measurements.
        """
        self.names = tuple(dict.fromkeys(row_names))
        self._row_names = row_names
        self._parts = parts

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        return all(part.ready() for part in self._parts)

    def resolve(self) -> SummaryTable:
        """Waits for the devices and returns a table with one row for each of ``names``."""
        table = concatenate([part.resolve() for part in self._parts])
        if len(self.names) == len(self._row_names):
            return table
        merged: dict[str, TensorSummary] = {}
        for name, summary in zip(self._row_names, table, strict=True):
            merged[name] = merged[name].merge(summary) if name in merged else summary
        return SummaryTable.of(merged.values())


def concatenate(tables: Sequence[SummaryTable]) -> SummaryTable:
    """Returns one table with the rows of all tables, in order."""
    if not tables:
        return SummaryTable.of(())
    columns = [table.columns for table in tables]
    starts = np.cumsum([0, *(len(part.bins) for part in columns[:-1])])
    return SummaryTable(
        HistogramColumns(
            tallies=np.concatenate([part.tallies for part in columns]),
            moments=np.concatenate([part.moments for part in columns]),
            ends=np.concatenate([part.ends + start for part, start in zip(columns, starts, strict=True)]),
            bins=np.concatenate([part.bins for part in columns]),
            counts=np.concatenate([part.counts for part in columns]),
        ),
        negative=np.concatenate([table.negative for table in tables]),
        positive=np.concatenate([table.positive for table in tables]),
        l1=np.concatenate([table.l1 for table in tables]),
        local_shard=np.concatenate([table.local_shard for table in tables]),
    )
