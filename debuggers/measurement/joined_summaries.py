"""Puts measurements that were made one after the other together to one table."""

from collections.abc import Sequence

from debuggers.measurement.measure import PendingSummaries
from debuggers.measurement.summary_table import SummaryTable


class JoinedSummaries:
    """Many measurements of one step as one, with the same ``ready`` and ``resolve``.

    Attributes:
        names: The name of each row, each once. Rows that were measured under one name are merged.
    """

    __slots__ = ("_parts", "_row_names", "_rows", "names")

    def __init__(
        self, row_names: Sequence[str], parts: Sequence[PendingSummaries], rows: Sequence[int] | None = None
    ) -> None:
        """Joins measurements.

        Args:
            row_names: The names of rows.
            parts: The measurements.
            rows: For each name its row among those of all parts, in order; a row without a name is left out. By
                default each row has one name.
        """
        self.names = tuple(dict.fromkeys(row_names))
        self._row_names = row_names
        self._parts = parts
        self._rows = rows

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        return all(part.ready() for part in self._parts)

    def resolve(self) -> SummaryTable:
        """Waits for the devices and returns a table with one row for each of ``names``."""
        table = SummaryTable.concatenate([part.resolve() for part in self._parts])
        if self._rows is not None and list(self._rows) != list(range(len(table))):
            table = table.select(self._rows)
        if len(self.names) == len(self._row_names):
            return table
        rows = {name: row for row, name in enumerate(self.names)}
        return table.grouped([rows[name] for name in self._row_names])
