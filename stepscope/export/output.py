"""The folder of an export: filled under a temporary name, so that what is half written never looks complete."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tracker_adapters.atomic_files import put_on_disk, unfinished_folder
from tracker_adapters.errors import RunError
from tracker_adapters.store.blobs import blob_size, copy_blob

from stepscope.export.selection import ExportError

MANIFEST = "export.json"
"""Written last; says what an export holds, and that a folder is one."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class OutputFolder:
    """Where the files of an export are written; ``output_folder`` makes one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, relative: str) -> BinaryIO:
        """Opens a new file for writing; ``relative`` has slashes between its parts."""
        path = self._path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")

    def write_bytes(self, relative: str, content: bytes) -> None:
        """Writes a whole file."""
        with self.open(relative) as stream:
            stream.write(content)

    def copy(self, run_folder: Path, sha256: str, size: int, relative: str) -> None:
        """Copies a page or file of a run, checked; one that is damaged is not there afterwards.

        Raises:
            FileNotFoundError: When it is gone.
            RunError: When it is damaged, or leads out of the run's folder.
            OSError: When it cannot be written.
        """
        if blob_size(run_folder, sha256) is None:
            raise FileNotFoundError(sha256)
        try:
            with self.open(relative) as writing:
                copy_blob(run_folder, sha256, writing, size)
        except RunError:
            (self._path / relative).unlink(missing_ok=True)
            raise


@contextmanager
def output_folder(target: Path, *, overwrite: bool) -> Iterator[OutputFolder]:
    """Yields the folder to fill, which takes its name at the end of the block; after an exception nothing is left.

    Args:
        target: The export's folder.
        overwrite: Whether an export that is there is replaced.

    Raises:
        ExportError: When something is there that is not to be replaced, or the folder cannot be written.
    """
    target = target.absolute()
    _check_free(target, overwrite)
    try:
        with unfinished_folder(target) as temporary:
            yield OutputFolder(temporary)
            _sync(temporary)
            _move_into_place(temporary, target, overwrite)
    except OSError as error:
        raise ExportError(f"cannot write the export to {target}: {error.strerror or error}") from error


def safe_part(text: str) -> str:
    """Returns what can be read of a text as a part of a file's name, at most 60 characters; nobody relies on it."""
    return _UNSAFE.sub("_", text).strip("._")[:60] or "_"


def _check_free(target: Path, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise ExportError(f"{target} is a file; expected a folder for the export")
    if not any(target.iterdir()):
        return
    if not overwrite:
        raise ExportError(f"{target} is not empty; choose another folder, or overwrite an export with --overwrite")
    if not (target / MANIFEST).is_file():
        raise ExportError(f"{target} holds no {MANIFEST}, so it is not an export and is not overwritten")


def _move_into_place(temporary: Path, target: Path, overwrite: bool) -> None:
    _check_free(target, overwrite)
    if not target.exists() or not any(target.iterdir()):
        temporary.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    target.rename(old)
    temporary.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_file():
            put_on_disk(path)
