"""How artifacts become rows, and rows become artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tracker_adapters.artifacts import Alert, Artifact, File, Image, Page, PageEntry, Table, Text
from tracker_adapters.store.layout import blob_path

MAX_INLINE_BYTES = 256 * 1024
"""Payloads above this lie in a blob file beside the store."""

_ROW_START = "seq, series, attempt, step, time_ns"
SCALAR_COLUMNS = f"{_ROW_START}, value"
HISTOGRAM_COLUMNS = f"{_ROW_START}, data"
ARTIFACT_COLUMNS = f"{_ROW_START}, meta, data, blob"

StoreBlob = Callable[[bytes], str]
_to_json = msgspec.json.Encoder().encode


def artifact_values(artifact: Artifact, store_blob: StoreBlob) -> tuple[str, bytes | str | None, str | None]:
    """Returns ``(meta, data, blob)`` of any artifact that is neither scalar nor histogram."""
    meta: dict[str, Any] = {}
    data: bytes | str | None = None
    blob: str | None = None
    match artifact:
        case Image():
            meta, data = {"width": artifact.width, "height": artifact.height}, artifact.png
        case Text():
            data = artifact.text
        case Alert():
            meta = {"level": artifact.level, "message": artifact.message}
        case Table():
            meta = {"columns": artifact.columns}
            data = msgspec.msgpack.encode(artifact.rows)  # unlike JSON it keeps NaN and infinity
        case Page():
            meta = {"filename": artifact.filename, "size": artifact.size}
            contents = [(entry.datapoint, entry.debugger, entry.summary) for entry in artifact.contents]
            data, blob = _to_json(contents), artifact.sha256
        case File():
            meta = {"filename": artifact.filename, "size": artifact.size, "media_type": artifact.media_type}
            blob = artifact.sha256
        case _:
            raise TypeError(f"no row for {type(artifact).__name__}")
    if blob is None and isinstance(data, (bytes, str)) and len(data) > MAX_INLINE_BYTES:
        raw = data.encode() if isinstance(data, str) else data
        data, blob = None, store_blob(raw)
    return _to_json(meta).decode(), data, blob


def decode_artifact(kind: str, name: str, row: Sequence[Any], run_folder: Path) -> Artifact:
    """Rebuilds an artifact from a row of ARTIFACT_COLUMNS; file paths point into ``run_folder``."""
    meta, data, blob = msgspec.json.decode(row[5]), row[6], row[7]
    common: dict[str, Any] = {"name": name, "step": row[3], "time_ns": row[4]}
    if kind == Page.kind:
        contents = tuple(
            PageEntry(datapoint=datapoint, debugger=debugger, summary=summary)
            for datapoint, debugger, summary in msgspec.json.decode(data)
        )
        return Page(path=blob_path(run_folder, blob), sha256=blob, contents=contents, **meta, **common)
    if kind == File.kind:
        return File(path=blob_path(run_folder, blob), sha256=blob, **meta, **common)
    if blob is not None:
        data = blob_path(run_folder, blob).read_bytes()
    if kind == Image.kind:
        return Image(png=data, **meta, **common)
    if kind == Text.kind:
        return Text(text=data.decode() if isinstance(data, bytes) else data, **common)
    if kind == Alert.kind:
        return Alert(**meta, **common)
    if kind == Table.kind:
        return Table(columns=tuple(meta["columns"]), rows=msgspec.msgpack.decode(data), **common)
    raise ValueError(f"the store holds an artifact of unknown kind {kind!r}")
