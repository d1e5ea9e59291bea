"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tracker_adapters.safe_files import put_on_disk

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Opens a file beside ``path`` for writing, and gives it that name once it is complete.

    ``durable`` waits until it is on the disk, so that a power cut cannot undo or damage it either. An
    exception inside the block leaves whatever was there before. A killed process leaves at most a hidden file
    with the suffix ``.part``.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        put_on_disk(path.parent)
