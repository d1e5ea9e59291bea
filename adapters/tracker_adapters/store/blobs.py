"""Files kept under their checksum, each once."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from pathlib import Path

from tracker_adapters.store.layout import blob_path


def store_bytes(run_folder: Path, content: bytes) -> str:
    """Keeps ``content`` and returns its SHA-256."""
    sha256 = hashlib.sha256(content).hexdigest()
    target = blob_path(run_folder, sha256)
    if not target.exists():
        temporary = _temporary(target)
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    return sha256


def adopt_file(run_folder: Path, source: Path, sha256: str, *, link: bool) -> Path:
    """Keeps the file ``source`` under its checksum and returns the new path.

    Args:
        run_folder: The run.
        source: The file; ``sha256`` is its checksum.
        sha256: In hexadecimal digits.
        link: Whether a hard link may stand for a copy: only for files that are never changed again.
    """
    target = blob_path(run_folder, sha256)
    if target.exists():
        return target
    temporary = _temporary(target)
    if link:
        try:
            os.link(source, temporary)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, temporary)
    else:
        shutil.copyfile(source, temporary)
    temporary.replace(target)
    return target


def _temporary(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    return temporary
