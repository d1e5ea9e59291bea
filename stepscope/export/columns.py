"""The tidy tables of an export: which columns each has, and how their values are handed to a format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import KINDS, Artifact

ColumnType: TypeAlias = Literal["name", "int", "float", "time", "text", "bytes", "floats", "ints"]
"""What a column holds: ``name`` texts that repeat often, as ``Names``; ``time`` nanoseconds since the epoch; ``floats``
and ``ints`` an array in each row. A text may be None; floats may be NaN and infinite."""

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
_START: dict[str, ColumnType] = {
    "run": "name", "rank": "int", "attempt": "int", "name": "name", "step": "int", "time": "time"
}  # fmt: skip
_FILE: dict[str, ColumnType] = {"file": "text", "filename": "text", "size": "int", "sha256": "text"}
_OWN_TABLES: dict[str, dict[str, ColumnType]] = {
    "runs": {
        "run": "text", "id": "text", "title": "text", "status": "text", "created": "time", "tags": "text",
        "config": "text", "environment": "text", "path": "text",
    },
    "scalars": _START | {"value": "float"},
    "histograms": _START
    | dict.fromkeys(("count", "nan", "pos_inf", "neg_inf", "zero"), "int")
    | dict.fromkeys(("min", "max", "mean", "std"), "float")
    | dict.fromkeys([f"p{q:02d}" for q in PERCENTILES], "float")
    | {"edges": "floats", "counts": "ints"},
    "images": _START | {"width": "int", "height": "int", "file": "text"},
    "tables": _START | {"row": "int", "column": "text", "type": "text", "value": "text"},
    "pages": _START | _FILE | {"contents": "text"},
    "files": _START | _FILE | {"media_type": "text"},
}  # fmt: skip


def content_columns(cls: type[Artifact]) -> dict[str, ColumnType]:
    """Returns the columns behind ``time`` of a kind whose fields are texts, and arrays that become a row an element."""
    types = get_type_hints(cls)
    return {
        one.name: "float" if get_origin(types[one.name]) is np.ndarray else "text"
        for one in fields(cls)[len(fields(Artifact)) :]
    }


TABLES: Mapping[str, Mapping[str, ColumnType]] = {
    f"{kind}s": _START | content_columns(cls) for kind, cls in KINDS.items() if f"{kind}s" not in _OWN_TABLES
} | _OWN_TABLES
"""The columns of each table in their order."""


@dataclass(frozen=True, slots=True)
class Names:
    """A column of texts that repeat: row i holds ``names[codes[i]]``."""

    codes: Sequence[int] | npt.NDArray[np.int64]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Constant:
    """A column that holds one value in all of its ``length`` rows."""

    value: Any
    length: int

    def __len__(self) -> int:
        return self.length


Column: TypeAlias = Sequence[Any] | npt.NDArray[Any] | Names | Constant
Chunk: TypeAlias = Mapping[str, Column]
"""Some rows of a table: each column's values, in the order of ``TABLES``."""


def row_count(chunk: Chunk) -> int:
    """Returns how many rows a chunk has."""
    return len(next(iter(chunk.values())))


def iso_times(times_ns: Sequence[int] | npt.NDArray[np.int64]) -> Names:
    """Returns times as ISO 8601 in UTC with nanoseconds, as in ``2026-01-31T23:59:59.123456789Z``."""
    # The scalars of a block share one moment.
    moments, codes = np.unique(np.asarray(times_ns, np.int64), return_inverse=True)
    return Names(codes, np.char.add(np.datetime_as_string(moments.view("M8[ns]")), "Z").tolist())
