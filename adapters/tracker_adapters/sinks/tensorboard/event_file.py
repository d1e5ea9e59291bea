"""A TensorBoard event file: framed and checksummed records, appended, or continued after an offset.

A record is the data's length as a 64-bit little-endian integer, the masked CRC-32C of those eight bytes, the
data, and the masked CRC-32C of the data (TensorFlow's TFRecord format, tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Self

import google_crc32c
import numpy as np

from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.safe_files import open_file
from tracker_adapters.sink import SinkError, StartOver

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD_SIZE = _LENGTH.size + _CHECKSUM.size
_MASK_DELTA = 0xA282EAD8


def masked_checksums(parts: Sequence[bytes]) -> bytes:
    """Returns the masked CRC-32C of each part, four little-endian bytes each, one after the other."""
    plain = np.fromiter(map(google_crc32c.value, parts), np.uint32, len(parts))
    masked = ((plain >> np.uint32(15)) | (plain << np.uint32(17))) + np.uint32(_MASK_DELTA)
    return masked.astype("<u4").tobytes()


def masked_checksum(part: bytes) -> bytes:
    """Returns the same for one part, sooner."""
    plain = google_crc32c.value(part)
    return _CHECKSUM.pack(((plain >> 15 | plain << 17) + _MASK_DELTA) & 0xFFFFFFFF)


def _head(size: int) -> bytes:
    """The beginning of a record of so many bytes."""
    length = _LENGTH.pack(size)
    return length + masked_checksum(length)


class EventFile:
    """One event file, open for appending. What it raises of its own accord are SinkError, StartOver and OSError."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream
        self._head = cache(_head)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Makes a new, empty file; raises FileExistsError when there is one."""
        return cls(path, open_file(path.parent, path.name, "xb"))

    @classmethod
    def reopen(cls, folder: Path, name: str, offset: int) -> Self:
        """Opens a file below a folder and cuts off everything after ``offset`` bytes, such as a torn record.

        Raises:
            StartOver: When the file is gone or shorter, or is a link or no regular file.
        """
        path = folder / name
        try:
            stream = open_file(folder, name, "r+b")
        except (FileNotFoundError, UnsafeFileError) as error:
            raise StartOver(f"the event file {path} is gone; expected at least {offset} bytes") from error
        size = stream.seek(0, os.SEEK_END)
        if size < offset:
            stream.close()
            raise StartOver(f"the event file {path} holds {size} bytes; expected at least {offset}")
        stream.truncate(offset)
        stream.seek(offset)
        return cls(path, stream)

    @property
    def size(self) -> int:
        """Bytes so far, those in memory included."""
        return self._stream.tell()

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yields where each record begins, and its data.

        Raises:
            StartOver: For a checksum that does not fit, or a file that ends inside a record.
        """
        end = self.size
        self._stream.flush()
        offset = 0
        with open_file(self.path.parent, self.path.name) as stream:
            while offset < end:
                head = stream.read(_HEAD_SIZE)
                size = _LENGTH.unpack(head[: _LENGTH.size])[0] if len(head) == _HEAD_SIZE else 0
                if head != self._head(size):
                    raise self._damaged(offset)
                data = stream.read(size)
                if masked_checksum(data) != stream.read(_CHECKSUM.size):
                    raise self._damaged(offset)
                yield offset, data
                offset += _HEAD_SIZE + len(data) + _CHECKSUM.size

    def append(self, records: Sequence[bytes]) -> None:
        """Adds records in one write; they may stay in memory until ``sync``."""
        checksums = masked_checksums(records)
        pieces = [b""] * (3 * len(records))
        pieces[0::3] = list(map(self._head, map(len, records)))
        pieces[1::3] = records
        pieces[2::3] = [checksums[start : start + _CHECKSUM.size] for start in range(0, len(checksums), _CHECKSUM.size)]
        self._stream.write(b"".join(pieces))

    def sync(self) -> int:
        """Puts every record on the disk and returns the file's size in bytes.

        Raises:
            SinkError: When the file was removed or replaced meanwhile: what is written to it is seen by nobody.
        """
        self._stream.flush()
        os.fsync(self._stream.fileno())
        # By size, since not every network file system keeps the numbers of its files.
        found = self.path.stat().st_size if self.path.exists() else 0
        if found != self.size:
            raise SinkError(f"the event file {self.path} was removed while it was written")
        return found

    def close(self) -> None:
        """Closes the file, also when what was not synced no longer fits on the disk."""
        with suppress(OSError):
            self._stream.close()

    def _damaged(self, offset: int) -> StartOver:
        return StartOver(f"the event file {self.path} is damaged after byte {offset}")
