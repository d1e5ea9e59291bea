"""Prints a table in columns: laid out for the terminal, or, where it is long, a line a row at once."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tracker_adapters.terminal_text import printable

LAID_OUT_ROWS = 1000
"""A table with more rows is printed plainly: laying out a row takes a millisecond of a processor."""
WIDEST = 100
"""A cell of a plain table that is longer moves those behind it."""


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: frozenset[int] = frozenset(),
    title: str | None = None,
) -> None:
    """Prints a table.

    Args:
        console: Where.
        columns: The heads of the columns.
        rows: The cells; what they would do to a terminal is shown instead.
        numbers: The places of columns that are set right.
        title: A line above it.
    """
    columns = [printable(column) for column in columns]
    if len(rows) > LAID_OUT_ROWS:
        _print_plainly(console, columns, rows, numbers, title)
        return
    table = Table(title=None if title is None else escape(printable(title)), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    console.print(table)


def _print_plainly(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int], title: str | None
) -> None:
    lines = [columns, *([printable(cell) for cell in row] for row in rows)]
    widths = [min(WIDEST, max(map(len, cells))) for cells in zip(*lines, strict=True)]
    if title is not None:
        console.file.write(f"{printable(title)}\n")
    for line in lines:
        cells = (
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        console.file.write("  ".join(cells).rstrip() + "\n")
