"""Rows of plain cells under named columns."""

from dataclasses import dataclass
from itertools import chain
from sys import getsizeof
from typing import ClassVar, TypeAlias

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import Artifact
from tracker_adapters.values.plain import as_tuple, plain, storable

Cell: TypeAlias = str | int | float | bool | None
"""What a cell of a table holds; NaN and infinities are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Artifact):
    """Rows of plain cells (str, int, float, bool or None) under named columns."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        columns = as_tuple(self.columns)
        if columns is None or not all(isinstance(column, str) for column in columns):
            raise ArtifactError(f"table {self.name!r}: columns are {self.columns!r}; expected a sequence of str")
        object.__setattr__(self, "columns", tuple(map(storable, columns)))
        rows = as_tuple(self.rows)
        if rows is None:
            raise ArtifactError(f"table {self.name!r}: rows are {self.rows!r}; expected a sequence of rows")
        object.__setattr__(self, "rows", tuple(self._check_row(number, row) for number, row in enumerate(rows)))

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        cells = sum(map(getsizeof, chain(self.columns, *self.rows)))
        return cells + 8 * len(self.columns) * (len(self.rows) + 1) + 64 * len(self.rows)

    def _check_row(self, number: int, row: object) -> tuple[Cell, ...]:
        cells = as_tuple(row)
        if cells is None or len(cells) != len(self.columns):
            raise ArtifactError(
                f"table {self.name!r}: row {number} is {row!r}; expected {len(self.columns)} cells, one a column"
            )
        return tuple(self._check_cell(number, cell) for cell in cells)

    def _check_cell(self, number: int, cell: object) -> Cell:
        value = plain(cell)
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise ArtifactError(f"table {self.name!r}: row {number} holds {value}; expected integers of 64 bits")
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        raise ArtifactError(
            f"table {self.name!r}: row {number} holds {type(cell).__name__} {cell!r}; "
            "expected str, int, float, bool or None"
        )
