"""The vocabulary: what producers emit, the store keeps and sinks show.

Every artifact has a ``name`` (any text of 1 to 1000 characters), a ``step`` (an integer from 0 to
2**63 - 1) and ``time_ns`` (nanoseconds since the epoch, frozen when the artifact is made). Artifacts are
immutable: arrays are copied and read-only. NaN and infinity are legal values.
"""

from __future__ import annotations

import hashlib
import operator
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

from tracker_adapters.errors import ArtifactError, UnreadableFileError
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.redaction import redact, redact_config
from tracker_adapters.values.arrays import as_float
from tracker_adapters.values.base import MAX_NAME_LENGTH, MAX_STEP, Artifact, check_name, check_step
from tracker_adapters.values.image import Image
from tracker_adapters.values.plain import as_tuple, plain, plain_config, storable
from tracker_adapters.values.png import SIGNATURE

AlertLevel: TypeAlias = Literal["info", "warning", "error"]
RunStatus: TypeAlias = Literal["running", "finished", "failed"]
Cell: TypeAlias = str | int | float | bool | None
MAX_PREVIEW_BYTES = 64 * 1024
"""The size of a picture in a page's table of contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Artifact):
    """One number. ``value``: float64; NaN and infinity are kept."""

    kind: ClassVar[str] = "scalar"
    value: float

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        if type(self.value) is not float:
            object.__setattr__(self, "value", as_float(f"scalar {self.name!r}", self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Artifact):
    """A piece of text, shown as Markdown where the tracker can."""

    kind: ClassVar[str] = "text"
    text: str

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        object.__setattr__(self, "text", _check_text(self, "text", self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Artifact):
    """Something a person should know. ``name`` is its kind, such as ``exploding_gradient``."""

    kind: ClassVar[str] = "alert"
    message: str
    level: AlertLevel = "warning"

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        object.__setattr__(self, "message", _check_text(self, "message", self.message))
        if self.level not in get_args(AlertLevel):
            raise ArtifactError(
                f"alert {self.name!r}: level is {self.level!r}; expected one of {', '.join(get_args(AlertLevel))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Artifact):
    """Rows of plain cells (str, int, float, bool or None) under named columns."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        columns = as_tuple(self.columns)
        if columns is None or not all(isinstance(column, str) for column in columns):
            raise ArtifactError(f"table {self.name!r}: columns are {self.columns!r}; expected a sequence of str")
        object.__setattr__(self, "columns", tuple(map(storable, columns)))
        rows = as_tuple(self.rows)
        if rows is None:
            raise ArtifactError(f"table {self.name!r}: rows are {self.rows!r}; expected a sequence of rows")
        object.__setattr__(self, "rows", tuple(self._check_row(number, row) for number, row in enumerate(rows)))

    def _check_row(self, number: int, row: object) -> tuple[Cell, ...]:
        cells = as_tuple(row)
        if cells is None or len(cells) != len(self.columns):
            raise ArtifactError(
                f"table {self.name!r}: row {number} is {row!r}; expected {len(self.columns)} cells, one a column"
            )
        return tuple(self._check_cell(number, cell) for cell in cells)

    def _check_cell(self, number: int, cell: object) -> Cell:
        value = plain(cell)
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise ArtifactError(f"table {self.name!r}: row {number} holds {value}; expected integers of 64 bits")
        if value is None or isinstance(value, (str, bool, int, float)):
            return value
        raise ArtifactError(
            f"table {self.name!r}: row {number} holds {type(cell).__name__} {cell!r}; "
            "expected str, int, float, bool or None"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredFile(Artifact):
    """What a file and a page have in common.

    ``path`` is absolute; once stored it lies in the run's folder under its checksum. ``size`` is in bytes, ``sha256``
    is in hexadecimal digits; both are measured when the artifact is made.
    """

    path: Path
    filename: str = ""
    size: int = -1
    sha256: str = ""

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        _fill_file_fields(self)

    def stored_at(self, path: Path) -> Self:
        """Returns the same artifact with its file at another path."""
        return replace(self, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class File(_StoredFile):
    """A file: ``path``, ``filename``, ``size`` in bytes and ``sha256``, and its ``media_type``."""

    kind: ClassVar[str] = "file"
    media_type: str = "application/octet-stream"

    def __post_init__(self) -> None:
        _StoredFile.__post_init__(self)
        object.__setattr__(self, "media_type", _check_text(self, "media_type", self.media_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """One line of a page's table of contents: which debugger kept what for which datapoint.

    ``picture`` is a small one of it, a PNG file of at most 64 kB; empty for none.
    """

    datapoint: int
    debugger: str
    summary: str
    picture: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "datapoint", operator.index(self.datapoint))
            object.__setattr__(self, "debugger", storable(self.debugger))
            object.__setattr__(self, "summary", storable(self.summary))
        except TypeError as error:
            raise ArtifactError(
                f"a page's contents have datapoint {self.datapoint!r}, debugger {self.debugger!r} and summary "
                f"{self.summary!r}; expected an int and two str"
            ) from error
        if self.picture and not (
            isinstance(self.picture, bytes)
            and self.picture.startswith(SIGNATURE)
            and len(self.picture) <= MAX_PREVIEW_BYTES
        ):
            raise ArtifactError(
                f"a page's contents have a picture of type {type(self.picture).__name__} and length "
                f"{len(self.picture)}; expected a PNG file of at most {MAX_PREVIEW_BYTES} bytes"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(_StoredFile):
    """A file of per-datapoint debug outputs, as ``File`` has it, with its table of contents."""

    kind: ClassVar[str] = "page"
    contents: tuple[PageEntry, ...] = ()

    def __post_init__(self) -> None:
        _StoredFile.__post_init__(self)
        object.__setattr__(self, "contents", tuple(self.contents))
        for entry in self.contents:
            if not isinstance(entry, PageEntry):
                raise ArtifactError(f"page {self.name!r}: contents hold {entry!r}; expected PageEntry objects")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Who a run is: ``id`` is unique, ``name`` is for people, ``config`` is JSON-able, ``status`` its state.

    Secrets in the name, the configuration and the tags are replaced by ``***``; see ``redaction.redact_config``.
    """

    id: str
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    status: RunStatus = "running"
    created_ns: int = field(default_factory=time.time_ns)

    def __post_init__(self) -> None:
        for key in ("id", "name"):
            if not isinstance(text := getattr(self, key), str):
                raise ArtifactError(f"run {self.name!r}: {key} is {type(text).__name__} {text!r}; expected a str")
            object.__setattr__(self, key, redact(storable(text)))
        object.__setattr__(self, "config", redact_config(plain_config(self.config)))
        object.__setattr__(self, "tags", tuple(map(redact, _check_tags(self.tags))))
        if self.status not in get_args(RunStatus):
            raise ArtifactError(f"run {self.name!r}: status is {self.status!r}; expected one of {get_args(RunStatus)}")

    def flat_config(self) -> dict[str, Cell]:
        """Returns the configuration with nested keys joined by dots: ``{"optim": {"lr": 1}}`` -> ``optim.lr``."""
        return dict(_flatten(self.config, ""))


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_text(artifact: Artifact, field_name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArtifactError(
            f"{artifact.kind} {artifact.name!r}: {field_name} is {type(value).__name__} {value!r}; expected a str"
        )
    return storable(value)


def _fill_file_fields(artifact: _StoredFile) -> None:
    what = f"{artifact.kind} {artifact.name!r}"
    if not isinstance(artifact.path, (str, PathLike)):
        raise ArtifactError(f"{what}: path is {type(artifact.path).__name__} {artifact.path!r}; expected a path")
    path = Path(artifact.path).absolute()
    if artifact.size < 0 or not artifact.sha256:
        try:
            status = path.stat()
            size, is_regular = status.st_size, stat.S_ISREG(status.st_mode)
            digest = (artifact.sha256 or sha256_of(path)) if is_regular else ""
        except OSError as error:
            kind = ArtifactError if isinstance(error, _CALLERS_ERRORS) else UnreadableFileError
            raise kind(f"{what}: cannot read {path}: {error.strerror}; expected a readable file") from error
        except ValueError as error:
            raise ArtifactError(f"{what}: the path {str(path)!r} is impossible: {error}") from error
        if not is_regular:
            raise ArtifactError(f"{what}: {path} is no regular file")
        object.__setattr__(artifact, "size", size)
        object.__setattr__(artifact, "sha256", digest)
    object.__setattr__(artifact, "path", path)
    object.__setattr__(artifact, "filename", _check_text(artifact, "filename", artifact.filename or path.name))


def _check_tags(tags: object) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise ArtifactError(f"tags are {tags!r}; expected a list of str")
    checked = tuple(tags)
    for tag in checked:
        if not isinstance(tag, str) or not tag:
            raise ArtifactError(f"tags hold {tag!r}; expected non-empty str")
    return tuple(map(storable, checked))


def _flatten(config: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Cell]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value) if isinstance(value, (list, Mapping)) else value


_CALLERS_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
"""What a wrong path raises; others are this machine's, such as no free descriptor, or an error of a disk."""
KINDS: Mapping[str, type[Artifact]] = {
    cls.kind: cls for cls in (Scalar, Histogram, Image, Text, Alert, Table, Page, File)
}

__all__ = [
    "KINDS",
    "MAX_NAME_LENGTH",
    "MAX_STEP",
    "Alert",
    "AlertLevel",
    "Artifact",
    "Cell",
    "File",
    "Histogram",
    "Image",
    "Page",
    "PageEntry",
    "RunInfo",
    "RunStatus",
    "Scalar",
    "Table",
    "Text",
    "check_name",
    "check_step",
    "sha256_of",
]
