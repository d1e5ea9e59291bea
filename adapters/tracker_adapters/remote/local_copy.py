"""The folder on this machine that stands for a remote run: where it lies, and what is known of its place."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import NotARunError
from tracker_adapters.safe_files import make_folders, read_file
from tracker_adapters.store.layout import PRIVATE

CACHE_VARIABLE = "STEPSCOPE_CACHE"
UPLOAD_LOG = f"{PRIVATE}/upload.log"
_HOME = "home.json"
_MAX_HOME_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Home:
    """Where a local copy belongs, and under which name it was written last.

    ``base`` is the writer whose run it continued with, empty for a new run. The place knows of ``writer`` when it is
    ``claimed``.
    """

    url: str
    writer: str
    base: str = ""
    claimed: bool = False

    def is_newest(self, last_writer: str) -> bool:
        """Whether nobody else has written to the place since this copy was the newest one."""
        return last_writer == (self.writer if self.claimed else self.base)

    def save(self, folder: Path) -> None:
        """Writes it into the local copy."""
        write_private(folder, _HOME, json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Home | None:
        """Reads it from a local copy; None where there is none."""
        try:
            return cls(**json.loads(read_file(folder, f"{PRIVATE}/{_HOME}", max_bytes=_MAX_HOME_BYTES)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise NotARunError(f"{folder / PRIVATE / _HOME} is damaged: {error}") from error


def write_private(folder: Path, name: str, text: str) -> None:
    """Replaces a file of the private folder in one piece."""
    folder.mkdir(parents=True, exist_ok=True)
    make_folders(folder, PRIVATE)
    write_atomically(folder, f"{PRIVATE}/{name}", text.encode(), sync="nothing")


def cache_folder() -> Path:
    """Returns where local copies lie: ``$STEPSCOPE_CACHE``, else ``stepscope`` in the user's cache folder."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "stepscope"


def written_copy(url: str) -> Path:
    """Returns the folder in which this machine writes the run at a URL."""
    return cache_folder() / "runs" / _name_of(url)


def read_copy(url: str) -> Path:
    """Returns the folder into which this machine downloads the run at a URL to read it."""
    return cache_folder() / "downloads" / _name_of(url)


def _name_of(url: str) -> str:
    url = url.rstrip("/")
    name = re.sub(r"[^\w.-]", "_", url.rpartition("/")[2])[:60].lstrip(".")
    return f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
