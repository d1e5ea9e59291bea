"""An append-only file: its size identifies a state, which truncation restores."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from tracker_adapters.errors import SinkError, StartOver, UnsafeFileError
from tracker_adapters.safe_files import open_file


class AppendedFile:
    """Open for appending. What it raises of its own accord are SinkError, StartOver and OSError.

    Attributes:
        what: What messages call it.
        header: What it begins with.
    """

    what: ClassVar[str]
    header: ClassVar[bytes] = b""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream

    @classmethod
    def reopen(cls, folder: Path, name: str, offset: int) -> Self:
        """Opens a file below a folder and cuts off everything after ``offset`` bytes, such as a torn record.

        Raises:
            StartOver: When the file is gone, shorter, a link, no regular file, or begins with something else.
        """
        path = folder / name
        try:
            stream = open_file(folder, name, "r+b")
        except (FileNotFoundError, UnsafeFileError) as error:
            raise StartOver(f"the {cls.what} {path} is gone; expected at least {offset} bytes") from error
        size = os.fstat(stream.fileno()).st_size
        if size < offset or stream.read(len(cls.header)) != cls.header:
            stream.close()
            begin = f", beginning with {cls.header!r}" if cls.header else ""
            raise StartOver(f"the {cls.what} {path} holds {size} bytes; expected at least {offset}{begin}")
        stream.truncate(offset)
        stream.seek(offset)
        return cls(path, stream)

    @property
    def size(self) -> int:
        """Bytes so far, those in memory included."""
        return self._stream.tell()

    def sync(self) -> int:
        """Puts all that was written on the disk and returns the file's size in bytes.

        Raises:
            SinkError: When the file was removed or replaced meanwhile: what is written to it is seen by nobody.
        """
        self._stream.flush()
        os.fsync(self._stream.fileno())
        # By size, since not every network file system keeps the numbers of its files.
        found = self.path.stat().st_size if self.path.exists() else 0
        if found != self.size:
            raise SinkError(f"the {self.what} {self.path} was removed while it was written")
        return found

    def close(self) -> None:
        """Closes the file, also when what was not synced no longer fits on the disk."""
        with suppress(OSError):
            self._stream.close()
