"""Reads back what the W&B sink wrote: offline logs, media files and W&B artifacts, as ``Shown``.

The SDK has had no reader of its own files since 0.30. A ``.wandb`` file is a LevelDB log (blocks of 32 KiB,
https://github.com/google/leveldb/blob/main/doc/log_format.md) of protobuf records after a header of 7 bytes;
its checksums are plain CRC-32 over the type byte and the data.
"""

import hashlib
import html
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracker_adapters.sinks.wandb import folders
from tracker_adapters.sinks.wandb.keys import NAME_KEY, STEP_KEY, unescape
from tracker_adapters.testing.contract import Shown, pixel_digest

_BLOCK = 32768
_COMPANIONS = ("nan", "+inf", "-inf")
_FULL, _LAST = 1, 4


def read_back(options: dict[str, Any]) -> list[Shown]:
    """Returns all that the runs in ``options["target"]`` show, in order; superseded ones are left out."""
    return [shown for folder in run_folders(options) for shown in _read_folder(folder)]


def run_folders(options: dict[str, Any], *, superseded: bool = False) -> list[Path]:
    """Returns the folders of W&B runs, those that are superseded or those that count.

    Those that count are ordered as ``wandb sync`` orders the folders of one run: by the time in their run's record,
    which one that was superseded may lack, if the SDK was killed before it wrote it.
    """
    logs = (Path(options["target"]) / "wandb").glob("*run-*/run-*.wandb")
    found = [folder.path for log in logs if (folder := folders.RunFolder.of(log)) and folder.superseded == superseded]
    return sorted(found) if superseded else sorted(found, key=lambda it: run_of(it).start_time.ToNanoseconds())


def run_of(folder: Path) -> Any:
    """Returns the run's record of a folder."""
    return next(record.run for record in each_record(folder) if record.WhichOneof("record_type") == "run")


def records(folder: Path) -> list[Any]:
    """Returns the ``wandb.proto`` records of a folder, checksums checked; an incomplete one ends the list."""
    return list(each_record(folder))


def each_record(folder: Path) -> Iterator[Any]:
    """Yields what ``records`` returns, reading no further than is asked for."""
    from wandb.proto import wandb_internal_pb2

    (log,) = folder.glob("run-*.wandb")
    for content in _contents(log.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        yield record


def history(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of a folder's history."""
    return [_row(record.history) for record in records(folder) if record.WhichOneof("record_type") == "history"]


def _contents(data: bytes) -> Iterator[bytes]:
    if not data:
        return
    magic, number, version = struct.unpack("<4sHB", data[:7])
    assert (magic, number, version) == (b":W&B", 0xBEE1, 0)
    position, content = 7, b""
    while position + 7 <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < 7:
            position += left
            continue
        checksum, length, kind = struct.unpack("<IHB", data[position : position + 7])
        chunk = data[position + 7 : position + 7 + length]
        if len(chunk) < length:
            return
        assert zlib.crc32(bytes([kind]) + chunk) == checksum
        content += chunk
        position += 7 + length
        if kind in (_FULL, _LAST):
            yield content
            content = b""


def _row(record: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for item in record.item:
        place = row
        *outer, last = item.nested_key or [item.key]
        for key in outer:
            place = place.setdefault(key, {})
        # W&B writes the three values that JSON lacks as NaN, Infinity and -Infinity, which json reads.
        place[last] = json.loads(item.value_json)
    return row


def _read_folder(folder: Path) -> Iterator[Shown]:
    tables: dict[tuple[str, int], int] = {}
    found: list[Shown] = []
    for row in history(folder):
        step = row[STEP_KEY]
        for key, value in row.items():
            chart = re.fullmatch(r"Custom Chart Tables/(.*)_table", key, re.DOTALL)
            name, suffix = unescape(chart[1] if chart else key)
            name = row.get(NAME_KEY, name)
            if key == STEP_KEY or key.startswith("_") or suffix in _COMPANIONS:
                continue
            if f"/{name}".endswith("/stepscope/verdict"):  # a line of the report in the same row, for the summary
                continue
            kind, content = _value(folder, value)
            if chart:
                kind, content = "curve", tuple(zip(*content[1], strict=True))
            if suffix.startswith("rows from"):
                first = tables[name, step]
                columns, rows = found[first].value
                found[first] = Shown(kind, name, step, (columns, rows + content[1]))
                continue
            assert suffix in ("", kind)
            if kind == "table":
                tables[name, step] = len(found)
            found.append(Shown(kind, name, step, content))
    yield from found
    described = [(shown.kind, shown.name, shown.step, shown.value) for shown in found if shown.kind in ("page", "file")]
    assert described == list(_tracked_files(folder))


def _value(folder: Path, value: Any) -> tuple[str, Any]:
    if isinstance(value, (int, float)):
        return "scalar", float(value)
    if value["_type"] == "histogram":
        count = sum(value["values"])
        ends = (value["bins"][0], value["bins"][-1]) if count else (math.nan, math.nan)
        return "histogram", (count, *ends)
    content = (folder / "files" / value["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == value["sha256"]
    if value["_type"] == "image-file":
        return "image", pixel_digest(content)
    if value["_type"] == "table-file":
        table = json.loads(content)
        return "table", (tuple(table["columns"]), tuple(map(tuple, table["data"])))
    assert value["_type"] == "html-file"
    return _described(content.decode())


def _described(page: str) -> tuple[str, Any]:
    (kind,) = re.findall(r'data-kind="(\w+)"', page)
    if kind == "text":
        return kind, html.unescape(re.findall(r"<pre[^>]*>(.*)</pre>", page, re.DOTALL)[0])
    if kind == "alert":
        level, message = re.findall(r"<b>(\w+)</b> <span[^>]*>(.*)</span></p>", page, re.DOTALL)[0]
        return kind, (level, html.unescape(message))
    return kind, re.findall(r"<code>(\w{64})</code>", page)[0]


def _tracked_files(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    for record in records(folder):
        if record.WhichOneof("record_type") != "artifact" or record.artifact.type not in ("page", "file"):
            continue
        metadata = json.loads(record.artifact.metadata)
        (entry,) = record.artifact.manifest.contents
        digest = hashlib.sha256(Path(entry.local_path).read_bytes()).hexdigest()
        assert digest == metadata["sha256"]
        yield record.artifact.type, metadata["name"], metadata["step"], digest
