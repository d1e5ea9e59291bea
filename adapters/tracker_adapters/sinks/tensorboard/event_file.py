"""A TensorBoard event file: framed and checksummed records, appended, or continued after an offset.

A record is the data's length as a 64-bit little-endian integer, the masked CRC-32C of those eight bytes, the
data, and the masked CRC-32C of the data (TensorFlow's TFRecord format, tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

import google_crc32c

from tracker_adapters.sink import StartOver

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD_SIZE = _LENGTH.size + _CHECKSUM.size


def masked_checksum(data: bytes) -> bytes:
    """Returns the masked CRC-32C of ``data`` as four little-endian bytes."""
    crc = google_crc32c.value(data)
    return _CHECKSUM.pack((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


class EventFile:
    """One event file, open for appending. What it raises of its own accord are StartOver and OSError."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream
        self._heads: dict[int, bytes] = {}

    @classmethod
    def create(cls, path: Path) -> Self:
        """Makes a new, empty file; raises FileExistsError when there is one."""
        return cls(path, path.open("xb"))

    @classmethod
    def reopen(cls, path: Path, offset: int) -> Self:
        """Opens a file and cuts off everything after ``offset`` bytes, such as a torn record.

        Raises:
            StartOver: When the file is gone or shorter.
        """
        try:
            stream = path.open("r+b")
        except FileNotFoundError as error:
            raise StartOver(f"the event file {path} is gone; expected at least {offset} bytes") from error
        size = stream.seek(0, os.SEEK_END)
        if size < offset:
            stream.close()
            raise StartOver(f"the event file {path} holds {size} bytes; expected at least {offset}")
        stream.truncate(offset)
        stream.seek(offset)
        return cls(path, stream)

    def records(self) -> Iterator[bytes]:
        """Yields the data of every record up to the end, where appending then goes on.

        Raises:
            StartOver: For a checksum that does not fit, or a file that ends inside a record.
        """
        self._stream.seek(0)
        while head := self._stream.read(_HEAD_SIZE):
            length = head[: _LENGTH.size]
            if masked_checksum(length) != head[_LENGTH.size :]:
                raise self._damaged()
            data = self._stream.read(_LENGTH.unpack(length)[0])
            if masked_checksum(data) != self._stream.read(_CHECKSUM.size):
                raise self._damaged()
            yield data

    def append(self, data: bytes) -> None:
        """Adds a record, which may stay in memory until ``sync``."""
        size = len(data)
        head = self._heads.get(size)
        if head is None:
            length = _LENGTH.pack(size)
            head = self._heads[size] = length + masked_checksum(length)
        self._stream.write(b"".join((head, data, masked_checksum(data))))

    def sync(self) -> int:
        """Puts every record on the disk and returns the file's size in bytes."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return self._stream.tell()

    def close(self) -> None:
        """Closes the file, also when what was not synced no longer fits on the disk."""
        with suppress(OSError):
            self._stream.close()

    def _damaged(self) -> StartOver:
        return StartOver(f"the event file {self.path} is damaged before byte {self._stream.tell()}")
