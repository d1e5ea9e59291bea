"""Writes one page: arrays and plain values of several datapoints in a file that ``joblib.load`` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from joblib.numpy_pickle import NumpyPickler

from debuggers.atomic_file import atomic_file
from debuggers.page_index import PageRecord

PICKLE_PROTOCOL = 4
"""What joblib itself uses on Python 3.11 to 3.13, and the only one that ``load_page`` accepts."""


def write_page(folder: Path, number: int, datapoints: Mapping[int, Mapping[str, Any]]) -> PageRecord:
    """Writes ``page_<number>.pkl``: it appears when it is complete and on the disk.

    Args:
        folder: An existing folder.
        number: The page's number, from 0.
        datapoints: ``{datapoint_idx: {debugger_name: outputs}}``; outputs as ``debuggers.capture`` makes
            them. Device tensors that are still on their way are waited for.
    """
    path = folder / f"page_{number}.pkl"
    with atomic_file(path) as stream:
        hashing = _HashingStream(stream)
        _PagePickler(hashing, protocol=PICKLE_PROTOCOL).dump(_resolved(datapoints, {}))
    return PageRecord(page=path.name, size=hashing.size, sha256=hashing.sha256, datapoints=tuple(datapoints))


def as_number(array: Any) -> Any:
    """Returns a 0-d array as a bool, int or float; a complex one stays an array."""
    kind = np.asarray(array).dtype.kind
    if kind == "c":
        return np.asarray(array)
    return bool(array) if kind == "b" else int(array) if kind in "iu" else float(array)


def _resolved(value: Any, known: dict[int, Any]) -> Any:
    """Replaces pending arrays by their values; what was one object stays one, so that it is written once."""
    if not isinstance(value, (dict, list, tuple)):
        if not hasattr(value, "resolve"):
            return value
        array = value.resolve()
        return array if array.ndim else as_number(array)
    if id(value) not in known:
        if isinstance(value, dict):
            known[id(value)] = {key: _resolved(item, known) for key, item in value.items()}
        else:
            known[id(value)] = type(value)(_resolved(item, known) for item in value)
    return known[id(value)]


class _HashingStream:
    """A file being written, whose size and checksum are known at the end without reading it again."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def tell(self) -> int:
        return self.size

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self.size += len(data)
        return self._stream.write(data)


class _PagePickler(NumpyPickler):  # type: ignore[misc]  # joblib has no annotations
    """Writes an array that is met twice only once: joblib alone would repeat its bytes."""

    def save(self, obj: Any) -> None:
        if type(obj) is not np.ndarray:
            super().save(obj)
        elif (known := self.memo.get(id(obj))) is not None:
            self.write(self.get(known[0]))
        else:
            super().save(obj)
            self.memoize(obj)
