"""Files: what a file and a page of debug outputs have in common, and the file itself."""

import hashlib
import stat
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import ClassVar

from tracker_adapters.errors import ArtifactError, UnreadableFileError
from tracker_adapters.values.base import Artifact

_CALLERS_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
"""What a wrong path raises; others are this machine's, such as no free descriptor, or an error of a disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile(Artifact):
    """What a file and a page have in common.

    ``path`` is absolute; once stored it lies in the run's folder under its checksum. ``size`` is in bytes, ``sha256``
    is in hexadecimal digits; both are measured when the artifact is made.
    """

    by_step: ClassVar[bool] = False
    path: Path
    filename: str = ""
    size: int = -1
    sha256: str = ""

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        what = f"{self.kind} {self.name!r}"
        if not isinstance(self.path, (str, PathLike)):
            raise ArtifactError(f"{what}: path is {type(self.path).__name__} {self.path!r}; expected a path")
        path = Path(self.path).absolute()
        if self.size < 0 or not self.sha256:
            try:
                status = path.stat()
                size, is_regular = status.st_size, stat.S_ISREG(status.st_mode)
                digest = (self.sha256 or sha256_of(path)) if is_regular else ""
            except OSError as error:
                kind = ArtifactError if isinstance(error, _CALLERS_ERRORS) else UnreadableFileError
                raise kind(f"{what}: cannot read {path}: {error.strerror}; expected a readable file") from error
            except ValueError as error:
                raise ArtifactError(f"{what}: the path {str(path)!r} is impossible: {error}") from error
            if not is_regular:
                raise ArtifactError(f"{what}: {path} is not a regular file")
            object.__setattr__(self, "size", size)
            object.__setattr__(self, "sha256", digest)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "filename", self.filename or path.name)
        self._check_texts("filename")


@dataclass(frozen=True, slots=True, kw_only=True)
class File(StoredFile):
    """A file: ``path``, ``filename``, ``size`` in bytes and ``sha256``, and its ``media_type``."""

    kind: ClassVar[str] = "file"
    media_type: str = "application/octet-stream"

    def __post_init__(self) -> None:
        StoredFile.__post_init__(self)
        self._check_texts("media_type")


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
