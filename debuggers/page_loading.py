"""Loads a page without executing anything in it; its arrays are views of the mapped file."""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import pickle
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

from debuggers.errors import PageError
from debuggers.page_checking import check_page, is_page
from debuggers.page_unpickling import PageUnpickler


def load_page(
    path: str | Path, *, trusted: bool = False, size: int | None = None, sha256: str | None = None
) -> dict[int, dict[str, Any]]:
    """Returns ``{datapoint_idx: {debugger_name: outputs}}``; its arrays are read-only views of the mapped file.

    Nothing in the file is executed, and no array is made that does not lie in the file: memory is needed for Python's
    own objects, in proportion to the bytes that describe them, and never for what the file only declares.

    Args:
        path: The page.
        trusted: Load it with ``joblib.load`` instead, which runs whatever the file says. Only for pages of
            other programs (with torch tensors inside) that you would also run as code.
        size: What the index says: bytes.
        sha256: What the index says: hexadecimal digits.

    Raises:
        PageError: For a page that is missing, damaged, no page, or not what the index says.
    """
    path = Path(path)
    with _opened(path) as file:
        length = os.fstat(file.fileno()).st_size
        if size is not None and length != size:
            raise PageError(f"{path}: has {length} bytes; its index says {size}")
        # Read, not mapped: mapped pages would count as this process's memory, whether they are needed later or not.
        if sha256 is not None and hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise PageError(f"{path}: its content does not match the checksum in its index; the page is damaged")
        if not trusted:
            return _unpickled(path, file)
    try:
        page = joblib.load(path, mmap_mode="r")
    except Exception as error:
        raise PageError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    if not is_page(page):
        raise PageError(f"{path}: holds no page; expected {{datapoint_idx: {{debugger_name: outputs}}}}")
    return page  # type: ignore[no-any-return]


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a named pipe would wait for ever
            raise PageError(f"{path}: cannot be read: is no regular file")
        file = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise PageError(f"{path}: cannot be read: {error}") from error
    with file:
        yield file


def _unpickled(path: Path, file: io.BufferedReader) -> dict[int, dict[str, Any]]:
    try:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # never closed here: the arrays keep it
        if content[:1] != pickle.PROTO:
            raise PageError("does not start like a page; compressed or older formats are not read")
        page = PageUnpickler(content).load()
        if behind := len(content) - content.tell():
            raise PageError(f"has {behind} bytes behind its end")
        check_page(page, len(content))
    except Exception as error:
        # A hostile stream can raise anything from anywhere; all of it means the same to the caller.
        raise PageError(f"{path}: refused: {_reason(error)}") from error
    return page  # type: ignore[no-any-return]


def _reason(error: Exception) -> str:
    if isinstance(error, PageError):
        return str(error)
    return "ends too early" if isinstance(error, EOFError) else f"is damaged: {type(error).__name__}: {error}"
