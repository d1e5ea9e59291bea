"""A ``.wandb`` file: what W&B's service writes offline and ``wandb sync`` reads, appended or cut back to an offset.

It is a LevelDB log (https://github.com/google/leveldb/blob/main/doc/log_format.md) behind a header of seven bytes that
belong to the first block; its checksums are plain CRC-32 (wandb 0.31, core/pkg/leveldb/record.go).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from tracker_adapters.atomic_files import give_name, put_on_disk, unfinished
from tracker_adapters.formats.appended_file import AppendedFile
from tracker_adapters.safe_files import open_file

HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK = 32 * 1024
_CHUNK_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_CHECKSUM_OF_TYPE = {kind: zlib.crc32(bytes([kind])) for kind in (_FULL, _FIRST, _MIDDLE, _LAST)}


class LogFile(AppendedFile):
    """One ``.wandb`` file, open for appending."""

    what = "W&B log"
    header = HEADER

    @classmethod
    def create(cls, path: Path, records: Iterable[bytes]) -> Self:
        """Makes a file that holds ``records``.

        It appears with all of them: ``wandb sync`` gives up on every run when it meets a file that names none.
        """
        with unfinished(path.parent, path.name) as unnamed:
            file = cls(path, open_file(path.parent, unnamed, "xb"))
            file._stream.write(HEADER)
            file.append(records)
            file._stream.flush()
            give_name(path.parent, unnamed, path.name, replaces=True)
        file.sync()
        with suppress(OSError):  # not every file system can
            put_on_disk(path.parent)
        return file

    def append(self, records: Iterable[bytes]) -> None:
        """Adds records, which may stay in memory until ``sync``."""
        self._stream.write(b"".join(_frames(records, self.size % _BLOCK)))


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
