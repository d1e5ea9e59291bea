"""Reads a segment that nobody writes from its file: opening it and its rows take SQLite several times as long.

The file is consistent while nobody has begun to write it: a writer first leaves a journal or a log beside it, and what
it has written changes the file's header. What cannot be read in this way, such as the segment of a live or killed
writer, is for SQLite to read; so is everything that is damaged.

Closing a file gives up the locks that this process has on it. SQLite holds one as long as a segment with a log is open,
which is not opened here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracker_adapters.native.extension import kernels
from tracker_adapters.safe_files import Place
from tracker_adapters.store.connections import SUFFIXES, has_shape
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.soundness import sound_series

_Integers = npt.NDArray[np.int64]
_BESIDE = tuple(suffix for suffix in SUFFIXES if suffix)
_HEADER_BYTES, _SCHEMA_ROOT = 100, 1
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
# The table has the group in front of the columns that its rows are written with, and the number behind the series.
_SEQ, _ATTEMPT, _STEP, _VALUE = 2, 3, 4, 6


class NotEnded(Exception):
    """A segment cannot be read from its file alone."""


class ScalarColumns(NamedTuple):
    """The rows of a scalar in order of arrival: int64 (n,), and ``values`` float64 (n,), NaN for NULL."""

    seqs: _Integers
    attempts: _Integers
    steps: _Integers
    values: npt.NDArray[np.float64]


class EndedSegment:
    """A segment that nobody writes. What it holds is only known to be sound when ``ended_segment`` has closed it."""

    def __init__(self, descriptor: int) -> None:
        """Takes the open file; raises NotEnded for any but an undamaged segment without a log."""
        self._file, self._native = descriptor, kernels()
        self._header = self.header()
        if not _is_plain(self._header, os.fstat(descriptor).st_size):
            raise NotEnded
        tables = self._rows(_SCHEMA_ROOT)
        if not has_shape([(row[1], row[2], row[3], row[5]) for row in tables], schema.DDL_TABLES + schema.DDL_INDEXES):
            raise NotEnded
        self._roots = {row[2]: row[4] for row in tables}
        self._numbers: dict[tuple[str, str], int] | None = None
        meta = dict(self._rows(self._roots["meta"]))
        attempts = [row[0] for row in self._rows(self._roots["attempt"])]
        self.is_compacted = meta.get("level", 0) != 0
        """Whether it stands for more than it holds."""
        self.last_attempt = max(attempts, default=0)

    def header(self) -> bytes:
        """Returns the header, which every change of the file changes."""
        return os.pread(self._file, _HEADER_BYTES, 0)

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is as it was when it was opened."""
        return self.header() == self._header

    def scalars(self, name: str) -> ScalarColumns:
        """Returns the rows of a scalar, none where there is no scalar of that name."""
        number = self._number("scalar", name)
        if number is None:
            none: _Integers = np.empty(0, np.int64)
            return ScalarColumns(none, none, none, np.empty(0))
        fields = [_SEQ, _ATTEMPT, _STEP, ~_VALUE]
        seqs, attempts, steps, values = self._columns("scalar", 3, [number], any_first=True, fields=fields)
        return ScalarColumns(seqs, attempts, steps, values.view(np.float64))

    def histogram(self, name: str, step: int) -> tuple[Any, ...] | None:
        """Returns the last histogram of a name at a step, a row of HISTOGRAM_COLUMNS; None where there is none."""
        number = self._number("histogram", name)
        if number is None:
            return None
        (seqs,) = self._columns("histogram_by_group", 4, [number, step], any_first=True, fields=[3])
        return self._last("histogram", seqs)

    def text(self, name: str) -> tuple[Any, ...] | None:
        """Returns the last text of a name, a row of ARTIFACT_COLUMNS; None where there is none."""
        number = self._number("text", name)
        if number is None:
            return None
        (seqs,) = self._columns("artifact_by_series", 3, [number], any_first=False, fields=[2])
        return self._last("artifact", seqs)

    def _last(self, table: str, seqs: _Integers) -> tuple[Any, ...] | None:
        if not len(seqs):
            return None
        seq = int(seqs.max())
        ((_, _, *rest),) = self._rows(self._roots[table], seq, seq)
        return (seq, *rest)

    def _number(self, kind: str, name: str) -> int | None:
        if self._numbers is None:
            rows = [(row[0], *row[2:]) for row in self._rows(self._roots["series"])]
            self._numbers = {series: number for number, series in sound_series(rows).items()}
        return self._numbers.get((kind, name))

    def _rows(self, root: int, first: int = _LOWEST, last: int = _HIGHEST) -> list[tuple[Any, ...]]:
        assert self._native is not None
        found: list[tuple[Any, ...]] = self._native.rows(self._file, root, first, last)
        return found

    def _columns(self, table: str, keys: int, wanted: list[int], *, any_first: bool, fields: list[int]) -> _Integers:
        assert self._native is not None
        packed = (np.array(numbers, np.int64).tobytes() for numbers in (wanted, fields))
        found = self._native.columns(self._file, self._roots[table], keys, next(packed), any_first, next(packed))
        return np.frombuffer(found, np.int64).reshape(len(fields), -1)


def _is_plain(header: bytes, size: int) -> bool:
    """Whether a file has the header of a database without a log, in UTF-8, with whole pages of the usual size."""
    if len(header) != _HEADER_BYTES:
        return False
    changes, pages, encoding, valid_for = struct.unpack_from(">24xII24xI32xI", header)
    return (
        header.startswith(b"SQLite format 3\0")
        and header[16:22] == bytes([schema.PAGE_BYTES >> 8, 0, 1, 1, 0, 64])
        and pages * schema.PAGE_BYTES == size
        and changes == valid_for
        and encoding == 1
    )


@contextmanager
def ended_segment(place: Place) -> Iterator[EndedSegment]:
    """Opens a segment for the block, what is read in which counts once the block has ended without an error.

    Raises:
        NotEnded: When SQLite has to read it: there is no compiled code, somebody writes or may have begun to, or it
            holds anything unexpected.
    """
    if not hasattr(kernels(), "columns"):  # there is none, or that of an older checkout
        raise NotEnded
    try:
        if place.present(_BESIDE):
            raise NotEnded
        descriptor = place.opened()
    except OSError as error:
        raise NotEnded from error
    try:
        segment = EndedSegment(descriptor)
        yield segment
        if place.present(_BESIDE) or not segment.is_unchanged:
            raise NotEnded
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise NotEnded from error
    finally:
        os.close(descriptor)
