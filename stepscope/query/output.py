"""Prints what a query answers: a table for people, CSV and JSON lines for programs."""

import base64
import csv
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rich.console import Console

from stepscope.query.database import QueryError
from stepscope.text_table import print_table as print_text_table

Rows = Iterable[tuple[Any, ...]]


def print_table(columns: Sequence[str], rows: Rows, console: Console) -> None:
    """Prints a table; the end of long bytes is omitted, None is empty, and control characters are escaped."""
    rows = list(rows)
    numbers = {place for row in rows for place, value in enumerate(row) if isinstance(value, (int, float))}
    print_text_table(console, columns, [[*map(_shown, row)] for row in rows], numbers=frozenset(numbers))


def write_csv(columns: Sequence[str], rows: Rows, stream: TextIO) -> None:
    """Writes CSV with a header: floats so that they read back the same, None as an empty field, bytes as base64."""
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_encoded(value) for value in row])


def write_json_lines(columns: Sequence[str], rows: Rows, stream: TextIO) -> None:
    """Writes strict JSON, an object a row: infinities as ``"inf"`` and ``"-inf"``, bytes as base64.

    Raises:
        QueryError: When two columns have one name.
    """
    if repeated := {column for column in columns if columns.count(column) > 1}:
        raise QueryError(f"several columns are named {min(repeated)!r}; JSON needs distinct names: use AS")
    for row in rows:
        values = (str(value) if isinstance(value, float) and math.isinf(value) else _encoded(value) for value in row)
        stream.write(json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False, allow_nan=False) + "\n")


def _encoded(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"{value[:8].hex()}… ({len(value)} bytes)" if len(value) > 8 else value.hex()
    return str(value)
