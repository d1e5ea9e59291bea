"""The index of a folder of pages: which page holds which datapoint, its size and checksum."""

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from tracker_adapters.atomic_files import finished_name, write_atomically
from tracker_adapters.safe_files import open_file, read_file

from debuggers.errors import PageError
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.loading import load_page_of

INDEX_NAME = "index.json"
DATAPOINT = "datapoint"
"""The reserved name under which a page keeps the datapoint itself."""
SCHEMA_VERSION = 1
MAX_INDEX_BYTES = 64 << 20
"""Of eight million datapoints."""
_PAGE_NAME = re.compile(r"page_([0-9]{1,18})\.pkl")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """One page: its file name, ``size`` in bytes, ``sha256`` in hexadecimal digits and its datapoints."""

    page: str
    size: int
    sha256: str
    datapoints: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    schema_version: int
    pages: tuple[PageRecord, ...]


def read_index(
    folder: Path, limits: PageLimits = LIMITS, *, refused: list[PageError] | None = None
) -> list[PageRecord]:
    """Returns the records of a folder's pages in the order of their numbers.

    Pages that the index does not list (a crash came between page and index, or the index is missing, damaged or no
    regular file) are opened and added; one that is refused beyond ``limits`` or as ``load_page`` does, or is a link, is
    left out; why is added to ``refused``, or without it a warning in the log.

    Raises:
        PageError: When the folder does not exist, or its index has an unknown version.
    """
    if not folder.is_dir():
        raise PageError(f"{folder} is not a folder; expected one that holds page_<n>.pkl files")
    records = {record.page: record for record in _listed(folder)}
    for path in folder.iterdir():
        if _PAGE_NAME.fullmatch(path.name) and path.name not in records:
            try:
                records[path.name] = _measured(folder, path.name, limits)
            except PageError as error:
                if refused is None:
                    _log.warning("omitted from the index of %s: %s", folder, error)
                else:
                    refused.append(error)
    return _in_order(records.values())


def write_index(folder: Path, records: Sequence[PageRecord]) -> None:
    """Replaces the folder's index in one step."""
    # Not durable: an index that a power cut damages is read as missing, and rebuilt from the pages.
    content = msgspec.json.encode(_Index(schema_version=SCHEMA_VERSION, pages=tuple(records)))
    write_atomically(folder, INDEX_NAME, content, sync="nothing")


def add_to_index(folder: Path, record: PageRecord) -> None:
    """Adds a page to the folder's index, or replaces what the index says about it; opens no page."""
    records = {known.page: known for known in _listed(folder)} | {record.page: record}
    write_index(folder, _in_order(records.values()))


def clear_pages(folder: Path) -> None:
    """Makes the folder if needed and removes the pages, the index and the unfinished files in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX_NAME).unlink(missing_ok=True)
    for path in folder.iterdir():
        name = finished_name(path.name) or path.name
        if _PAGE_NAME.fullmatch(name) or name == INDEX_NAME:
            path.unlink(missing_ok=True)


def page_name(number: int) -> str:
    """Returns the file name of a page."""
    return f"page_{number}.pkl"


def page_number(name: str) -> int:
    """Returns the number in the file name of a page."""
    return int(name[5:-4])


def _in_order(records: Iterable[PageRecord]) -> list[PageRecord]:
    return sorted(records, key=lambda record: page_number(record.page))


def _listed(folder: Path) -> tuple[PageRecord, ...]:
    path = folder / INDEX_NAME
    try:
        index = msgspec.json.decode(read_file(folder, INDEX_NAME, max_bytes=MAX_INDEX_BYTES), type=_Index)
    except FileNotFoundError:
        return ()
    except (msgspec.DecodeError, RecursionError, OSError) as error:
        _log.warning("the index %s cannot be read (%s); its pages are read instead", path, error)
        return ()
    if index.schema_version != SCHEMA_VERSION:
        raise PageError(
            f"{path}: schema_version is {index.schema_version}; this version of stepscope reads {SCHEMA_VERSION}"
        )
    for record in index.pages:
        if not _PAGE_NAME.fullmatch(record.page):
            raise PageError(f"{path}: lists a page named {record.page!r}; expected page_<n>.pkl")
    return index.pages


def _measured(folder: Path, name: str, limits: PageLimits) -> PageRecord:
    datapoints = tuple(load_page_of(folder, name, limits=limits))
    with open_file(folder, name) as file:
        sha256 = hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
        return PageRecord(page=name, size=file.tell(), sha256=sha256, datapoints=datapoints)
