"""Reads the records of event files that nobody vouches for: torn, damaged or made to harm.

A record is its length as a 64-bit little-endian integer, the masked CRC-32C of those bytes, the data, and the masked
CRC-32C of the data (TensorFlow's TFRecord format, tensorflow/core/lib/io/record_writer.h). TensorBoard's own reader
(2.21) takes any length that a file declares, and its checksum in Python reads some MB a second.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from tracker_adapters.errors import MissingPackageError

from stepscope.importing.skipped import Skipped

MAX_RECORD_BYTES = 256 * 1024 * 1024
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD_BYTES = _LENGTH.size + _CHECKSUM.size


def read_records(path: Path, skipped: Skipped) -> Iterator[bytes]:
    """Yields the data of the records of a file whose checksums fit.

    A record with a wrong checksum is left out. Reading ends at a length whose checksum is wrong, and at a record that
    goes beyond the file's end: that is how a writer that was killed leaves it.

    Raises:
        MissingPackageError: When ``google_crc32c`` is not installed.
        OSError: When the file cannot be read.
    """
    try:
        from google_crc32c import value as checksum
    except ImportError as error:
        raise MissingPackageError(
            f"event files need the package google-crc32c ({error}); pip install 'stepscope[tensorboard]'"
        ) from error

    def masked(data: bytes) -> bytes:
        crc = checksum(data)
        return _CHECKSUM.pack((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        start = 0
        while head := stream.read(_HEAD_BYTES):
            if len(head) < _HEAD_BYTES:
                skipped.add("a torn record at the end of a file", f"{path} from byte {start}")
                return
            if masked(head[: _LENGTH.size]) != head[_LENGTH.size :]:
                skipped.add("the rest of a file that is damaged", f"{path} from byte {start}")
                return
            (length,) = _LENGTH.unpack_from(head)
            end = start + _HEAD_BYTES + length + _CHECKSUM.size
            if end > size:
                skipped.add("a torn record at the end of a file", f"{path} from byte {start}")
                return
            if length > MAX_RECORD_BYTES:
                skipped.add(f"a record of more than {MAX_RECORD_BYTES} bytes", f"{path} at byte {start}")
                stream.seek(end)
            else:
                data = stream.read(length)
                if masked(data) == stream.read(_CHECKSUM.size):
                    yield data
                else:
                    skipped.add("a record with a wrong checksum", f"{path} at byte {start}")
            start = end
