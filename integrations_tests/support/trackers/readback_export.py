"""Reads the tables of an export back with the readers that people use."""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyarrow import parquet


def read_table(folder: Path, name: str, file_format: str) -> list[dict[str, Any]]:
    """Returns a table's rows with numbers as numbers, times as nanoseconds and arrays as lists."""
    path = folder / f"{name}.{file_format}"
    if file_format == "parquet":
        table = parquet.read_table(path)
        times = {
            column for column in table.column_names if str(table.schema.field(column).type) == "timestamp[ns, tz=UTC]"
        }
        for column in times:
            place = table.column_names.index(column)
            table = table.set_column(place, column, table[column].cast("int64"))
        return table.to_pylist()
    if file_format == "jsonl":
        rows = [
            json.loads(line, parse_constant=pytest.fail) for line in path.read_text(encoding="utf-8").split("\n")[:-1]
        ]
    else:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, strict=True))
    return [{key: _typed(key, value) for key, value in row.items()} for row in rows]


INTEGERS = {"rank", "attempt", "step", "size", "width", "height", "row", "count", "nan", "pos_inf", "neg_inf", "zero"}
FLOATS = {"min", "max", "mean", "std", "p01", "p05", "p25", "p50", "p75", "p95", "p99", "x", "y"}


def _typed(column: str, value: Any) -> Any:
    if column in ("time", "created"):
        return pd.Timestamp(value).value
    if column in ("edges", "counts"):
        return json.loads(value) if isinstance(value, str) else value
    if column in INTEGERS:
        return int(value)
    return float(value) if column in FLOATS else value
