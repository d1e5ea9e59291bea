"""How artifacts become rows, and rows become artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracker_adapters.artifacts import (
    Alert,
    AlertLevel,
    Artifact,
    Cell,
    File,
    Image,
    Page,
    PageEntry,
    Table,
    Text,
)
from tracker_adapters.errors import ArtifactError
from tracker_adapters.store.blobs import MAX_BLOB_BYTES, blob_size, check_blob, read_blob
from tracker_adapters.store.layout import blob_path
from tracker_adapters.store.segments.schema import COLUMNS

MAX_INLINE_BYTES = 256 * 1024
"""Payloads above this lie in a blob file beside the store."""

_PNG_BYTES_PER_PIXEL, _BESIDE_PIXELS = 16, 16 * 1024**2
"""More than a PNG takes for a pixel, of four channels with 16 bits, and for what it says beside them."""
SCALAR_COLUMNS, HISTOGRAM_COLUMNS, ARTIFACT_COLUMNS = (
    ", ".join(COLUMNS[table]) for table in ("scalar", "histogram", "artifact")
)

DAMAGED = (ArtifactError, ValueError, TypeError, LookupError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What decoding raises where a store holds something else than was written."""
StoreBlob = Callable[[bytes], str]
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
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
            contents = [
                (entry.datapoint, entry.debugger, entry.summary, *([entry.picture] if entry.picture else ()))
                for entry in artifact.contents
            ]
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


def decode_artifact(
    kind: str, name: str, row: Sequence[Any], run_folder: Path, *, check_files: bool = False
) -> Artifact:
    """Rebuilds an artifact from a row of ARTIFACT_COLUMNS; file paths point into ``run_folder``.

    Args:
        kind: Its kind.
        name: Its name.
        row: The row, which may hold anything.
        run_folder: The run.
        check_files: Whether pages and files are read to check them, too, as what lies in a blob always is. One that is
            gone is no error.

    Raises:
        FileNotFoundError: When its content lies in a blob that is gone.
        DamagedError: When a blob holds something else than was written.
        UnsafeFileError: When a blob leads out of the run's folder.
        Exception: One of ``DAMAGED``, when the row holds something else than was written.
    """
    data, blob = row[6], row[7]
    common: dict[str, Any] = {"name": name, "step": row[3], "time_ns": row[4]}
    if kind in (Page.kind, File.kind):
        path = blob_path(run_folder, blob)
        file = (_FILE if kind == File.kind else _PAGE).decode(row[5])
        if blob_size(run_folder, blob) is not None and check_files:
            check_blob(run_folder, blob, file.size)
        if kind == File.kind:
            return File(path=path, sha256=blob, **msgspec.structs.asdict(file), **common)
        entries = (PageEntry(**msgspec.structs.asdict(entry)) for entry in _CONTENTS.decode(data))
        return Page(path=path, sha256=blob, contents=tuple(entries), **msgspec.structs.asdict(file), **common)
    if kind == Image.kind:
        image = _IMAGE.decode(row[5])
        if blob is not None:
            most = _PNG_BYTES_PER_PIXEL * image.width * image.height + _BESIDE_PIXELS
            data = read_blob(run_folder, blob, max_bytes=min(most, MAX_BLOB_BYTES))
        return Image(png=data, **msgspec.structs.asdict(image), **common)
    if blob is not None:
        data = read_blob(run_folder, blob)
    if kind == Text.kind:
        return Text(text=data.decode() if isinstance(data, bytes) else data, **common)
    if kind == Alert.kind:
        return Alert(**msgspec.structs.asdict(_ALERT.decode(row[5])), **common)
    if kind == Table.kind:
        return Table(columns=_TABLE.decode(row[5]).columns, rows=_ROWS.decode(data), **common)
    raise ValueError(f"the store holds an artifact of unknown kind {kind!r}")


class _ImageMeta(msgspec.Struct, forbid_unknown_fields=True):
    width: _Size
    height: _Size


class _AlertMeta(msgspec.Struct, forbid_unknown_fields=True):
    level: AlertLevel
    message: str


class _TableMeta(msgspec.Struct, forbid_unknown_fields=True):
    columns: tuple[str, ...]


class _PageMeta(msgspec.Struct, forbid_unknown_fields=True):
    filename: str
    size: _Size


class _Entry(msgspec.Struct, array_like=True):
    datapoint: int
    debugger: str
    summary: str
    picture: bytes = b""


class _FileMeta(msgspec.Struct, forbid_unknown_fields=True):
    filename: str
    size: _Size
    media_type: str


_IMAGE = msgspec.json.Decoder(_ImageMeta)
_ALERT = msgspec.json.Decoder(_AlertMeta)
_TABLE = msgspec.json.Decoder(_TableMeta)
_PAGE = msgspec.json.Decoder(_PageMeta)
_FILE = msgspec.json.Decoder(_FileMeta)
_CONTENTS = msgspec.json.Decoder(list[_Entry])
_ROWS = msgspec.msgpack.Decoder(tuple[tuple[Cell, ...], ...])
