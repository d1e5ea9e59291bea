"""CSV and JSON lines, which any reader of these formats takes.

CSV follows RFC 4180, with a header. An empty field is a missing value; an empty text is ``""``; arrays are JSON in one
field. JSON is strict: NaN and infinities are the strings ``"nan"``, ``"inf"`` and ``"-inf"``. Both write a float as
the shortest text that reads back as the same float64, and times as ISO 8601 in UTC with nanoseconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from stepscope.export.columns import Chunk, Column, ColumnType, Constant, Names, iso_times

_NEEDS_QUOTES = re.compile('[",\r\n]')
Write = Callable[[Any], str]


class CsvTable:
    """One table as CSV. A name that begins with ``=``, ``+``, ``-`` or ``@`` is data, and is written as it is."""

    suffix = ".csv"
    embeds_images = False

    def __init__(self, stream: BinaryIO, columns: Mapping[str, ColumnType]) -> None:
        self._stream = stream
        self._columns = columns
        self._starts = ["", *[","] * (len(columns) - 1)]
        stream.write((",".join(columns) + "\r\n").encode())

    def write(self, chunk: Chunk) -> None:
        """Appends rows."""
        self._stream.write(_lines(chunk, self._columns, self._starts, "\r\n", _CSV).encode())

    def close(self) -> None:
        """Ends the file."""
        self._stream.close()


class JsonLinesTable:
    """One table as JSON lines: an object a row, with the columns as keys."""

    suffix = ".jsonl"
    embeds_images = False

    def __init__(self, stream: BinaryIO, columns: Mapping[str, ColumnType]) -> None:
        self._stream = stream
        self._columns = columns
        self._starts = [f'{", " if place else "{"}"{name}": ' for place, name in enumerate(columns)]

    def write(self, chunk: Chunk) -> None:
        """Appends rows."""
        self._stream.write(_lines(chunk, self._columns, self._starts, "}\n", _JSON).encode())

    def close(self) -> None:
        """Ends the file."""
        self._stream.close()


def _lines(
    chunk: Chunk,
    columns: Mapping[str, ColumnType],
    starts: Sequence[str],
    end: str,
    writers: Mapping[ColumnType, Write],
) -> str:
    """The lines of a chunk, made by one template: what is the same in all of them stands in it."""
    template = ""
    fields: list[Iterable[Any]] = []
    for start, (name, kind) in zip(starts, columns.items(), strict=True):
        column, write = chunk[name], writers[kind]
        template += start
        if isinstance(column, Constant):
            template += write(column.value).replace("%", "%%")
        elif _is_plain(column, write):
            template += "%r"
            fields.append(_values(column))
        else:
            template += "%s"
            fields.append(_texts(column, write, kind))
    template += end
    return "".join(map(template.__mod__, zip(*fields, strict=True)))


def _is_plain(column: Column, write: Write) -> bool:
    """Whether Python's own text is right for every value of a column."""
    return write is repr or (write is _json_float and bool(np.isfinite(_values(column)).all()))


def _values(column: Any) -> Sequence[Any]:
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def _texts(column: Column, write: Write, kind: ColumnType) -> Iterable[str]:
    if isinstance(column, Names):
        names = list(map(write, column.names))
        return [names[code] for code in column.codes]
    if kind == "time":
        return map(write, iso_times(_values(column)))
    return map(write, _values(column))


def _csv_text(text: str | None) -> str:
    if text is None:
        return ""
    if not text or _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _csv_array(values: Sequence[Any], write: Write) -> str:
    return _csv_text(_json_array(values, write))


def _json_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{value!r}"'


def _json_text(text: str | None) -> str:
    return "null" if text is None else json.dumps(text, ensure_ascii=False)


def _json_array(values: Any, write: Write) -> str:
    return "[" + ", ".join(map(write, values.tolist())) + "]"


_CSV: Mapping[ColumnType, Write] = {
    "name": _csv_text,
    "int": repr,
    "float": repr,
    "time": str,
    "text": _csv_text,
    "floats": partial(_csv_array, write=_json_float),
    "ints": partial(_csv_array, write=repr),
}
_JSON: Mapping[ColumnType, Write] = {
    "name": _json_text,
    "int": repr,
    "float": _json_float,
    "time": '"{}"'.format,
    "text": _json_text,
    "floats": partial(_json_array, write=_json_float),
    "ints": partial(_json_array, write=repr),
}
