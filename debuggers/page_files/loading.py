"""Loads a page without executing anything in it; its arrays are views of the mapped file."""

import hashlib
import mmap
import os
import pickle
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracker_adapters.safe_files import open_file

from debuggers.errors import PageError
from debuggers.page_files.checking import check_page, is_page
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.unpickling import PageUnpickler


def load_page(
    path: str | Path,
    *,
    trusted: bool = False,
    size: int | None = None,
    sha256: str | None = None,
    limits: PageLimits = LIMITS,
) -> dict[int, dict[str, Any]]:
    """Returns ``{datapoint_idx: {debugger_name: outputs}}``; its arrays are read-only views of the mapped file.

    Nothing in the file is executed, and no array is made that does not lie in the file: memory is needed for Python's
    own objects, in proportion to the bytes that describe them and up to ``limits``, and never for what the file only
    declares.

    Args:
        path: The page; it may be a link to one.
        trusted: Load it with ``joblib.load`` instead, which runs whatever the file says. Only for pages of
            other programs (with torch tensors inside) that you would also run as code.
        size: What the index says: bytes.
        sha256: What the index says: hexadecimal digits.
        limits: The limits beyond which the page is refused.

    Raises:
        PageError: For a page that is missing, damaged, too large, no page, or not what the index says.
    """
    path = Path(path)
    with _readable(path), open(path, "rb", opener=_open_at_once) as file:
        _check_file(path, file, limits, size, sha256)
        if not trusted:
            return _unpickled(path, file, limits)
    import joblib  # takes time, and only who trusts a page needs it

    try:
        page = joblib.load(path, mmap_mode="r")
    except Exception as error:
        raise PageError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    if not is_page(page):
        raise PageError(f"{path}: holds no page; expected {{datapoint_idx: {{debugger_name: outputs}}}}")
    return page  # type: ignore[no-any-return]


def load_page_of(
    folder: Path, name: str, *, size: int | None = None, sha256: str | None = None, limits: PageLimits = LIMITS
) -> dict[int, dict[str, Any]]:
    """The same for a page that lies in a folder from somebody else: a link there is not followed."""
    path = folder / name
    with _readable(path), open_file(folder, name) as file:
        _check_file(path, file, limits, size, sha256)
        return _unpickled(path, file, limits)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = "is not a regular file" if isinstance(error, IsADirectoryError) else error
        raise PageError(f"{path}: cannot be read: {reason}") from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a named pipe would wait for ever


def _check_file(path: Path, file: BinaryIO, limits: PageLimits, size: int | None, sha256: str | None) -> None:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise PageError(f"{path}: cannot be read: is not a regular file")
    if status.st_size > limits.file_bytes:
        raise PageError(
            f"{path}: has {status.st_size} bytes; expected at most {limits.file_bytes}: if you trust its writer, pass "
            "limits=PageLimits(file_bytes=...) from debuggers.page_files.limits"
        )
    if size is not None and status.st_size != size:
        raise PageError(f"{path}: has {status.st_size} bytes; its index says {size}")
    # Read, not mapped: mapped pages would count as this process's memory, whether they are needed later or not.
    if sha256 is not None and hashlib.file_digest(cast(Any, file), "sha256").hexdigest() != sha256:
        raise PageError(f"{path}: its content does not match the checksum in its index; the page is damaged")


def _unpickled(path: Path, file: BinaryIO, limits: PageLimits) -> dict[int, dict[str, Any]]:
    try:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # never closed here: the arrays keep it
        if content[:1] != pickle.PROTO:
            raise PageError("does not start like a page; compressed or older formats are not read")
        page = PageUnpickler(content, limits).load()
        if behind := len(content) - content.tell():
            raise PageError(f"has {behind} bytes behind its end")
        check_page(page, len(content), limits)
    except Exception as error:
        # A hostile stream can raise anything from anywhere; all of it means the same to the caller.
        raise PageError(f"{path}: refused: {_reason(error)}") from error
    return page  # type: ignore[no-any-return]


def _reason(error: Exception) -> str:
    if isinstance(error, PageError):
        return str(error)
    return "ends too early" if isinstance(error, EOFError) else f"is damaged: {type(error).__name__}: {error}"
