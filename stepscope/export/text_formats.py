"""CSV and JSON lines, which any reader of these formats takes.

CSV follows RFC 4180, with a header. An empty field is a missing value; an empty text is ``""``; arrays are JSON in one
field. JSON is strict: NaN and infinities are the strings ``"nan"``, ``"inf"`` and ``"-inf"``. Both write a float as
the shortest text that reads back as the same float64, and times as ISO 8601 in UTC with nanoseconds.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import msgspec
import numpy as np

from stepscope.export.columns import Chunk, Column, ColumnType, Constant, Names, iso_times

_NEEDS_QUOTES = re.compile('[",\r\n]')


class _LinesTable(ABC):
    """One table as a line of text a row.

    A line is ``end`` behind its fields, which are made of whole columns and joined by ``between``. What is the same in
    all lines, such as the run and the keys of JSON, stands at the start of the next field.
    """

    embeds_images = False
    between: str
    end: str

    def __init__(self, stream: BinaryIO, columns: Mapping[str, ColumnType]) -> None:
        self._stream = stream
        self._columns = columns

    def write(self, chunk: Chunk) -> None:
        """Appends rows."""
        fields: list[Iterable[str]] = []
        start = ""
        for place, (name, kind) in enumerate(self._columns.items()):
            column = chunk[name]
            start += self._key(name, place)
            if isinstance(column, Constant):
                start = self._texts([column.value], kind, start)[0] + self.between
            else:
                fields.append(self._texts(column, kind, start))
                start = ""
        lines = self.end.join(map(self.between.join, zip(*fields, strict=True)))
        self._stream.write((lines + self.end).encode())

    def close(self) -> None:
        """Ends the file."""
        self._stream.close()

    @abstractmethod
    def _key(self, name: str, place: int) -> str:
        """What stands before a column's field."""

    @abstractmethod
    def _text(self, text: str | None) -> str:
        """The field of a text."""

    @abstractmethod
    def _array(self, encoded: str) -> str:
        """The field of an array, which is JSON."""

    @abstractmethod
    def _not_finite(self, value: float) -> str:
        """The field of NaN or an infinity."""

    def _texts(self, column: Column, kind: ColumnType, start: str) -> list[str]:
        """The fields of a column, each behind ``start``."""
        if kind == "time":
            column = iso_times(_listed(column))
        if isinstance(column, Names):
            names = [start + self._text(name) for name in column.names]
            return [names[code] for code in _listed(column.codes)]
        if kind == "int":
            return _numbers(_listed(column), start)
        if kind == "float":
            values = np.asarray(column, np.float64)
            fields = _numbers(np.nan_to_num(values, posinf=0, neginf=0).tolist(), start)
            for place in np.flatnonzero(~np.isfinite(values)).tolist():
                fields[place] = start + self._not_finite(values[place].item())
            return fields
        if kind in ("floats", "ints"):
            return [start + self._array(_json_array(values)) for values in _listed(column)]
        return [start + self._text(text) for text in _listed(column)]


class CsvTable(_LinesTable):
    """One table as CSV. A name that begins with ``=``, ``+``, ``-`` or ``@`` is data, and is written as it is."""

    suffix = ".csv"
    between = ","
    end = "\r\n"

    def __init__(self, stream: BinaryIO, columns: Mapping[str, ColumnType]) -> None:
        super().__init__(stream, columns)
        stream.write((",".join(columns) + self.end).encode())

    def _key(self, name: str, place: int) -> str:
        return ""

    def _text(self, text: str | None) -> str:
        if text is None:
            return ""
        if not text or _NEEDS_QUOTES.search(text):
            return '"' + text.replace('"', '""') + '"'
        return text

    def _array(self, encoded: str) -> str:
        return self._text(encoded)

    def _not_finite(self, value: float) -> str:
        return repr(value)


class JsonLinesTable(_LinesTable):
    """One table as JSON lines: an object a row, with the columns as keys."""

    suffix = ".jsonl"
    between = ", "
    end = "}\n"

    def _key(self, name: str, place: int) -> str:
        return f'"{name}": ' if place else f'{{"{name}": '

    def _text(self, text: str | None) -> str:
        return "null" if text is None else json.dumps(text, ensure_ascii=False)

    def _array(self, encoded: str) -> str:
        return encoded

    def _not_finite(self, value: float) -> str:
        return f'"{value!r}"'


def _listed(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _numbers(values: Any, start: str) -> list[str]:
    """The texts of finite numbers: three times as fast as Python's own."""
    encoded = msgspec.json.encode(values)[1:-1].decode()
    # No label of a run has a zero byte in it.
    return (start + encoded.replace(",", "\0" + start)).split("\0")


def _json_array(values: Any) -> str:
    plain = [value if np.isfinite(value) else repr(value) for value in values.tolist()]
    return msgspec.json.encode(plain).decode()
