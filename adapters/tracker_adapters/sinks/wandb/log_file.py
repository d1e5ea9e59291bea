"""A ``.wandb`` file: what W&B's service writes offline and ``wandb sync`` reads, appended or cut back to an offset.

It is a LevelDB log (https://github.com/google/leveldb/blob/main/doc/log_format.md) behind a header of seven bytes that
belong to the first block; its checksums are plain CRC-32 (wandb 0.31, core/pkg/leveldb/record.go).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, Self

from tracker_adapters.errors import SinkError, StartOver, UnsafeFileError
from tracker_adapters.safe_files import open_file

HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK = 32 * 1024
_CHUNK_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_CHECKSUM_OF_TYPE = {kind: zlib.crc32(bytes([kind])) for kind in (_FULL, _FIRST, _MIDDLE, _LAST)}


class LogFile:
    """One ``.wandb`` file, open for appending. What it raises of its own accord are SinkError and OSError."""

    def __init__(self, path: Path, stream: BinaryIO, size: int) -> None:
        self.path = path
        self.size = size
        """In bytes, with what is not on the disk yet."""
        self._stream = stream

    @classmethod
    def create(cls, path: Path, records: Iterable[bytes]) -> Self:
        """Makes a file that holds ``records``.

        It appears with all of them: ``wandb sync`` gives up on every run when it meets a file that names none.
        """
        unnamed = path.with_suffix(".new")
        unnamed.unlink(missing_ok=True)
        file = cls(path, open_file(unnamed.parent, unnamed.name, "xb"), len(HEADER))
        file._stream.write(HEADER)
        file.append(records)
        file._stream.flush()
        unnamed.rename(path)
        file.sync()
        put_on_disk(path.parent)
        return file

    @classmethod
    def reopen(cls, path: Path, offset: int) -> Self:
        """Opens a file and cuts off everything after ``offset`` bytes.

        Raises:
            StartOver: When the file is gone, shorter, or no ``.wandb`` file.
        """
        try:
            stream = open_file(path.parent, path.name, "r+b")
        except (FileNotFoundError, UnsafeFileError) as error:
            raise StartOver(f"the W&B log {path} is gone; expected at least {offset} bytes") from error
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if size < offset or stream.read(len(HEADER)) != HEADER:
            stream.close()
            raise StartOver(f"the W&B log {path} holds {size} bytes; expected at least {offset}, after W&B's header")
        stream.truncate(offset)
        stream.seek(offset)
        return cls(path, stream, offset)

    def append(self, records: Iterable[bytes]) -> None:
        """Adds records, which may stay in memory until ``sync``."""
        frames = b"".join(_frames(records, self.size % _BLOCK))
        self._stream.write(frames)
        self.size += len(frames)

    def sync(self) -> int:
        """Puts every record on the disk and returns the file's size in bytes.

        Raises:
            SinkError: When the file was removed or replaced meanwhile.
        """
        self._stream.flush()
        os.fsync(self._stream.fileno())
        # By size, since not every network file system keeps the numbers of its files.
        found = self.path.stat().st_size if self.path.exists() else 0
        if found != self.size:
            raise SinkError(f"the W&B log {self.path} was removed while it was written")
        return self.size

    def close(self) -> None:
        """Closes the file, also when what was not synced no longer fits on the disk."""
        with suppress(OSError):
            self._stream.close()


def put_on_disk(path: Path) -> None:
    """Puts a file, or the names in a folder, on the disk; not every file system can do that for a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _frames(records: Iterable[bytes], position: int) -> Iterator[bytes]:
    """Yields what frames ``records`` for a file that ends at ``position`` of its last block."""
    checksum, pack, start = zlib.crc32, _CHUNK_HEAD.pack, _CHECKSUM_OF_TYPE[_FULL]
    room = _BLOCK - position
    for record in records:
        if room < _CHUNK_HEAD.size:
            yield bytes(room)
            room = _BLOCK
        size = len(record)
        if size + _CHUNK_HEAD.size <= room:
            yield pack(checksum(record, start), size, _FULL)
            yield record
            room -= size + _CHUNK_HEAD.size
            continue
        kind, rest = _FIRST, memoryview(record)
        while True:
            chunk, rest = rest[: room - _CHUNK_HEAD.size], rest[room - _CHUNK_HEAD.size :]
            if not rest:
                kind = _LAST
            yield pack(checksum(chunk, _CHECKSUM_OF_TYPE[kind]), len(chunk), kind)
            yield bytes(chunk)
            room -= len(chunk) + _CHUNK_HEAD.size
            if kind == _LAST:
                break
            kind, room = _MIDDLE, _BLOCK
