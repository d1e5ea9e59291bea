"""How artifacts become rows, and rows become artifacts."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from tracker_adapters.artifacts import (
    KINDS,
    Alert,
    AlertLevel,
    Artifact,
    Cell,
    Curve,
    File,
    Image,
    Page,
    PageEntry,
    StoredFile,
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
    codec = _CODECS[artifact.kind]
    meta = {key: getattr(artifact, key) for key in fields_in_meta(artifact.kind)}
    data = None if codec.pack is None else codec.pack(artifact)
    blob = artifact.sha256 if isinstance(artifact, StoredFile) else None
    if blob is None and data is not None and len(data) > MAX_INLINE_BYTES:
        blob = store_blob(data.encode() if isinstance(data, str) else data)
        data = None
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
    if kind not in _CODECS:
        raise ValueError(f"the store holds an artifact of unknown kind {kind!r}")
    codec, cls = _CODECS[kind], KINDS[kind]
    meta: Any = codec.meta.decode(row[5])
    data, blob = row[6], row[7]
    fields: dict[str, Any] = {"name": name, "step": row[3], "time_ns": row[4], **msgspec.structs.asdict(meta)}
    if issubclass(cls, StoredFile):
        fields |= {"path": blob_path(run_folder, blob), "sha256": blob}
        if blob_size(run_folder, blob) is not None and check_files:
            check_blob(run_folder, blob, meta.size)
    elif blob is not None:
        data = read_blob(run_folder, blob, max_bytes=min(codec.most_bytes(meta), MAX_BLOB_BYTES))
    return cls(**fields, **codec.unpack(data))


def needs_blob(kind: str, has_data: bool) -> bool:
    """Returns whether a row of this kind must name a file beside the store."""
    return issubclass(KINDS[kind], StoredFile) or (_CODECS[kind].pack is not None and not has_data)


def fields_in_meta(kind: str) -> tuple[str, ...]:
    """Returns which of a kind's fields lie in the column ``meta``."""
    found: tuple[str, ...] = _CODECS[kind].meta.type.__struct_fields__
    return found


def unpacked(kind: str, data: Any) -> dict[str, Any]:
    """Returns the other fields, of the column ``data`` or a blob; raises one of ``DAMAGED``."""
    return _CODECS[kind].unpack(data)


class _NoMeta(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _ImageMeta(msgspec.Struct, forbid_unknown_fields=True):
    width: _Size
    height: _Size


class _AlertMeta(msgspec.Struct, forbid_unknown_fields=True):
    level: AlertLevel
    message: str


class _TableMeta(msgspec.Struct, forbid_unknown_fields=True):
    columns: tuple[str, ...]


class _CurveMeta(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    x_label: str
    y_label: str


class _PageMeta(msgspec.Struct, forbid_unknown_fields=True):
    filename: str
    size: _Size


class _FileMeta(_PageMeta, forbid_unknown_fields=True):
    media_type: str


class _Entry(msgspec.Struct, array_like=True):
    datapoint: int
    debugger: str
    summary: str
    picture: bytes = b""


_CONTENTS = msgspec.json.Decoder(list[_Entry])
_ROWS = msgspec.msgpack.Decoder(tuple[tuple[Cell, ...], ...])


class _Codec:
    """How a kind lies in a row.

    Args:
        meta: Has the artifact's fields that lie in ``meta``, as JSON.
        pack: Returns what lies in ``data``, or in a blob where it is large; None for a kind that has nothing there.
        unpack: Returns the artifact's fields that are in there.
        most_bytes: How long a blob can be at most, by what ``meta`` says.
    """

    def __init__(
        self,
        meta: type[msgspec.Struct],
        pack: Callable[[Any], bytes | str] | None = None,
        unpack: Callable[[Any], dict[str, Any]] = lambda data: {},
        most_bytes: Callable[[Any], int] = lambda meta: MAX_BLOB_BYTES,
    ) -> None:
        self.meta = msgspec.json.Decoder(meta)
        self.pack, self.unpack, self.most_bytes = pack, unpack, most_bytes


def _pack_contents(page: Page) -> bytes:
    return _to_json(
        [
            (entry.datapoint, entry.debugger, entry.summary, *([entry.picture] if entry.picture else ()))
            for entry in page.contents
        ]
    )


def _unpack_contents(data: Any) -> dict[str, Any]:
    return {"contents": tuple(PageEntry(**msgspec.structs.asdict(entry)) for entry in _CONTENTS.decode(data))}


_CODECS = {
    Image.kind: _Codec(
        _ImageMeta,
        attrgetter("png"),
        lambda png: {"png": png},
        lambda meta: _PNG_BYTES_PER_PIXEL * meta.width * meta.height + _BESIDE_PIXELS,
    ),
    Text.kind: _Codec(
        _NoMeta, attrgetter("text"), lambda text: {"text": text.decode() if isinstance(text, bytes) else text}
    ),
    Alert.kind: _Codec(_AlertMeta),
    Table.kind: _Codec(  # msgpack, since JSON keeps neither NaN nor infinity
        _TableMeta, lambda table: msgspec.msgpack.encode(table.rows), lambda rows: {"rows": _ROWS.decode(rows)}
    ),
    Page.kind: _Codec(_PageMeta, _pack_contents, _unpack_contents),
    File.kind: _Codec(_FileMeta),
    Curve.kind: _Codec(
        _CurveMeta,
        lambda curve: np.stack([curve.x, curve.y]).astype("<f8").tobytes(),
        lambda data: dict(zip("xy", np.frombuffer(data, "<f8").reshape(2, -1), strict=True)),
    ),
}
