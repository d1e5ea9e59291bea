"""Data frames as tables, recognised by their methods: neither pandas nor polars is imported here."""

import math
from typing import Any

from tracker_adapters.artifacts import Cell
from tracker_adapters.values.plain import comes_from, plain


def is_frame(value: object) -> bool:
    """Whether ``value`` is a DataFrame or a Series of pandas or polars."""
    return (comes_from(value, "pandas") and hasattr(value, "index")) or (
        comes_from(value, "polars") and hasattr(value, "rows" if hasattr(value, "columns") else "to_frame")
    )


def frame_table(frame: Any) -> tuple[list[str], list[list[Cell]]]:
    """Returns a frame's columns and rows; an index that is more than a count becomes the first columns.

    What a table cannot hold, such as a time, becomes its text; what is missing becomes None.
    """
    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    if not comes_from(frame, "pandas"):
        return list(frame.columns), [[*map(_cell, row)] for row in frame.rows()]
    if type(frame.index).__name__ != "RangeIndex" or any(name is not None for name in frame.index.names):
        frame = frame.reset_index(allow_duplicates=True)
    holds_text = [getattr(dtype, "kind", "O") not in "biuf" for dtype in frame.dtypes]
    rows = [[*map(_cell, row, holds_text)] for row in frame.itertuples(index=False, name=None)]
    return [_title(column) for column in frame.columns], rows


def _title(column: object) -> str:
    return "/".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _cell(value: Any, holds_text: bool = False) -> Cell:
    value = plain(value)
    if type(value).__name__ in ("NaTType", "NAType") or (holds_text and isinstance(value, float) and math.isnan(value)):
        return None
    if type(value) is int and not -(2**63) <= value < 2**64:
        return str(value)
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
