"""The SQL functions that a query can use beside SQLite's own."""

import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tracker_adapters.errors import DamagedError, RunError, StepscopeError
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.store.blobs import read_blob
from tracker_adapters.store.layout import blob_name, is_checksum
from tracker_adapters.store.segments.codec import DAMAGED, unpacked
from tracker_adapters.store.segments.histogram_codec import decode

_FIELDS = ("count", "nan", "pos_inf", "neg_inf", "zero", "min", "max", "mean", "std")


class Functions:
    """Registers the functions; ``error`` is the last exception that one of them raised, which SQLite hides."""

    def __init__(self, connection: sqlite3.Connection, run_of_origin: Sequence[Path]) -> None:
        self.error: Exception | None = None
        self._run_of_origin = run_of_origin
        self._last: tuple[bytes, Histogram] | None = None
        for key in _FIELDS:
            self._add(
                connection, f"histogram_{key}", 1, lambda data, key=key: _plain(getattr(self._decoded(data), key))
            )
        self._add(connection, "percentile", 2, self._percentile)
        self._add(connection, "histogram_edges", 1, lambda data: _json(self._decoded(data).edges()[0]))
        self._add(connection, "histogram_counts", 1, lambda data: _json(self._decoded(data).edges()[1]))
        self._add(connection, "content", 3, self._content)
        self._add(connection, "stored_field", 3, _stored_field)
        self._add(connection, "stored_file", 1, lambda sha256: blob_name(sha256) if is_checksum(sha256) else None)
        self._add(connection, "iso", 1, _iso)

    def _add(self, connection: sqlite3.Connection, name: str, arguments: int, function: Callable[..., Any]) -> None:
        def called(*values: Any) -> Any:
            if values[0] is None and name != "content":
                return None
            try:
                return function(*values)
            except DamagedError:
                return None
            except Exception as error:
                self.error = error
                raise

        connection.create_function(name, arguments, called, deterministic=True)

    def _decoded(self, data: object) -> Histogram:
        if not isinstance(data, bytes):
            raise TypeError(f"got {type(data).__name__} {data!r}; expected the column data of histograms")
        # Several columns of one row come one after the other.
        if self._last is None or self._last[0] != data:
            self._last = (data, decode([data]).histogram(0, "histogram", step=0, time_ns=0))
        return self._last[1]

    def _percentile(self, data: object, q: object) -> float | None:
        if not isinstance(q, (int, float)) or not 0 <= q <= 100:
            raise ValueError(f"percentile: got {q!r}; expected a number from 0 to 100")
        found: float | None = _plain(float(self._decoded(data).percentile(q)[0]))
        return found

    def _content(self, origin: object, data: bytes | str | None, blob: object) -> bytes | str | None:
        if blob is None:
            return data
        if not isinstance(origin, int) or not 0 <= origin < len(self._run_of_origin):
            return None
        try:
            return read_blob(self._run_of_origin[origin], str(blob))
        except (OSError, RunError):  # gone, damaged, or out of the run's folder
            return None


def explained(error: Exception) -> str:
    """Returns what a function's exception says to the user."""
    return str(error) if isinstance(error, (StepscopeError, ValueError, TypeError)) else repr(error)


def _plain(value: Any) -> Any:
    return None if math.isnan(value) else value  # SQL has no NaN


def _json(values: Any) -> str:
    return json.dumps(values.tolist())


def _stored_field(data: bytes | str, kind: str, name: str) -> bytes | str | None:
    try:
        value = unpacked(kind, data)[name]
    except DAMAGED:
        return None
    return value if isinstance(value, str) else json.dumps(_in_json(value), ensure_ascii=False)


def _in_json(value: Any) -> Any:
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_in_json(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _iso(time_ns: object) -> str:
    if not isinstance(time_ns, int):
        raise TypeError(f"iso: got {type(time_ns).__name__} {time_ns!r}; expected nanoseconds since 1970")
    return f"{np.datetime_as_string(np.datetime64(time_ns, 'ns'))}Z"
