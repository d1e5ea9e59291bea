"""How artifacts are written as lines of CSV and JSON that any reader of these formats takes.

CSV follows RFC 4180. JSON is strict: NaN and infinities are the strings ``"nan"``, ``"inf"`` and ``"-inf"``. Times
are ISO 8601 in UTC with nanoseconds, since spreadsheets and JavaScript round integers of 19 digits. ``attempt`` says
which opening of the run wrote a line: 1, and one more each time that the run was resumed.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Alert, Artifact, Cell, Curve, File, Image, Page, StoredFile, Table, Text
from tracker_adapters.formats.file_names import safe_suffix
from tracker_adapters.sink import ScalarColumns

SCALAR_HEADER = b"name,step,time,value,attempt\r\n"
_NEEDS_QUOTES = re.compile('[",\r\n]')


def scalar_lines(scalars: ScalarColumns, attempt: int) -> bytes:
    """Returns the rows of ``scalars.csv``; values are the shortest text that reads back as the same float64."""
    fields = {name: _quoted(name) if _NEEDS_QUOTES.search(name) else name for name in set(scalars.names)}
    names, steps = map(fields.__getitem__, scalars.names), scalars.steps.tolist()
    rows = zip(names, steps, iso_times(scalars.times_ns), _number_texts(scalars.values), strict=True)
    end = f",{attempt}\r\n"
    return "".join([f"{name},{step},{time},{value}{end}" for name, step, time, value in rows]).encode()


def alert_line(seq: int, alert: Alert, attempt: int) -> bytes:
    """Returns a line of ``alerts.jsonl``."""
    return json_line(_common(seq, alert, attempt) | {"level": alert.level, "message": alert.message})


def index_line(seq: int, artifact: Artifact, path: str, attempt: int) -> bytes:
    """Returns the line of ``artifacts.jsonl`` for the file at ``path``, relative to the folder."""
    line: dict[str, Any] = {"path": path, "kind": artifact.kind} | _common(seq, artifact, attempt)
    for key in ("width", "height", "title", "filename", "media_type", "size", "sha256"):
        if hasattr(artifact, key):
            line[key] = getattr(artifact, key)
    if isinstance(artifact, Page):
        line["contents"] = [
            {"datapoint": entry.datapoint, "debugger": entry.debugger, "summary": entry.summary}
            for entry in artifact.contents
        ]
    return json_line(line)


def file_of(artifact: Artifact) -> tuple[str, bytes | StoredFile]:
    """Returns the suffix and the content of an artifact's own file; pages and files are returned as they are."""
    match artifact:
        case Image():
            return ".png", artifact.png
        case Text():
            return ".md", artifact.text.encode()
        case Table():
            return ".csv", table_text(artifact).encode()
        case Curve():
            return ".csv", table_text(artifact.plainer()).encode()
        case Page():
            return ".pkl", artifact
        case File():
            return safe_suffix(artifact.filename), artifact
        case _:
            raise TypeError(f"no file for {artifact.kind}")


def table_text(table: Table) -> str:
    """Returns a table as CSV that keeps types apart.

    Text is quoted; numbers, ``true``, ``false``, ``nan`` and ``inf`` are bare, and None is an empty field.
    """
    return "".join(",".join(map(_cell, row)) + "\r\n" for row in (table.columns, *table.rows))


def json_line(value: Mapping[str, Any]) -> bytes:
    """Returns a value as one line of strict JSON, UTF-8."""
    return (json.dumps(_strict(value), ensure_ascii=False, allow_nan=False) + "\n").encode()


def iso_times(times_ns: npt.NDArray[np.int64]) -> list[str]:
    """Returns times in ISO 8601, UTC, with nanoseconds.

    It puts the characters of all of them together at once: ``np.datetime_as_string`` takes longer.
    """
    seconds, nanoseconds = np.divmod(times_ns, 10**9)
    distinct, which = np.unique(seconds, return_inverse=True)
    to_the_second = np.datetime_as_string(distinct.view("datetime64[s]")).astype("U19").view(np.uint32)
    characters = np.empty((times_ns.size, 30), np.uint32)
    characters[:, :19] = to_the_second.reshape(-1, 19)[which]
    characters[:, 19], characters[:, 29] = ord("."), ord("Z")
    rest = nanoseconds.astype(np.uint32)
    for place in range(28, 19, -1):
        rest, digit = np.divmod(rest, np.uint32(10))
        characters[:, place] = digit + np.uint32(ord("0"))
    texts: list[str] = characters.view("U30").ravel().tolist()
    return texts


def _common(seq: int, artifact: Artifact, attempt: int) -> dict[str, Any]:
    time = f"{np.datetime64(artifact.time_ns, 'ns')}Z"
    return {"name": artifact.name, "step": artifact.step, "time": time, "seq": seq, "attempt": attempt}


def _number_texts(values: npt.NDArray[np.float64]) -> list[str]:
    """The shortest text of each number, which msgspec finds seven times as fast as ``repr``."""
    texts = msgspec.json.encode(values.tolist())[1:-1].decode().split(",")
    for place in np.flatnonzero(~np.isfinite(values)).tolist():  # null in JSON
        texts[place] = repr(float(values[place]))
    return texts


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
