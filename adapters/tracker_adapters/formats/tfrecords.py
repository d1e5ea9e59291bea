"""Framed and checksummed records, as event files hold them; importing this imports google_crc32c.

A record is the data's length as a 64-bit little-endian integer, the masked CRC-32C of those eight bytes, the
data, and the masked CRC-32C of the data (TensorFlow's TFRecord format, tensorflow/core/lib/io/record_writer.h).
"""

import os
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import BinaryIO

import google_crc32c
import numpy as np

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD_SIZE = _LENGTH.size + _CHECKSUM.size
_MASK_DELTA = 0xA282EAD8


def framed(records: Sequence[bytes]) -> bytes:
    """Returns the records as they stand in a file, one after the other."""
    plain = np.fromiter(map(google_crc32c.value, records), np.uint32, len(records))
    masked = ((plain >> np.uint32(15)) | (plain << np.uint32(17))) + np.uint32(_MASK_DELTA)
    checksums = masked.astype("<u4").tobytes()
    pieces = [b""] * (3 * len(records))
    pieces[0::3] = list(map(_head, map(len, records)))
    pieces[1::3] = records
    pieces[2::3] = [checksums[start : start + _CHECKSUM.size] for start in range(0, len(checksums), _CHECKSUM.size)]
    return b"".join(pieces)


def read_records(stream: BinaryIO, *, max_bytes: int | None = None) -> Iterator[tuple[int, bytes, str]]:
    """Yields where each record of a file begins, its data, and what is wrong with it; "" where nothing is.

    Nothing is taken on trust: a record with a wrong checksum has no data. Reading ends at a length whose checksum is
    wrong, and at a record that goes beyond the file's end: that is how a writer that was killed leaves it.

    Args:
        stream: The file, at its beginning.
        max_bytes: Records with more data are passed over unread.

    Raises:
        OSError: When it cannot be read.
    """
    size, start = os.fstat(stream.fileno()).st_size, 0
    while head := stream.read(_HEAD_SIZE):
        length = _LENGTH.unpack_from(head)[0] if len(head) == _HEAD_SIZE else size
        if len(head) == _HEAD_SIZE and head != _head(length):
            yield start, b"", "the rest of a file that is damaged"
            return
        end = start + _HEAD_SIZE + length + _CHECKSUM.size
        if end > size:
            yield start, b"", "a truncated record at the end of a file"
            return
        if max_bytes is not None and length > max_bytes:
            stream.seek(end)
            yield start, b"", f"a record of more than {max_bytes} bytes"
        else:
            data = stream.read(length)
            fits = _masked_checksum(data) == stream.read(_CHECKSUM.size)
            yield (start, data, "") if fits else (start, b"", "a record with a wrong checksum")
        start = end


def _masked_checksum(data: bytes) -> bytes:
    plain = google_crc32c.value(data)
    return _CHECKSUM.pack(((plain >> 15 | plain << 17) + _MASK_DELTA) & 0xFFFFFFFF)


@lru_cache(maxsize=1 << 14)
def _head(size: int) -> bytes:
    """The beginning of a record of so many bytes."""
    length = _LENGTH.pack(size)
    return length + _masked_checksum(length)
