"""Writes one page: arrays and plain values of several datapoints in a file that ``joblib.load`` reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib.numpy_pickle import NumpyArrayWrapper, NumpyPickler
from tracker_adapters.atomic_files import atomic_file

from debuggers.page_files.index import PageRecord
from debuggers.page_files.stream import Checksum, PageStream

PICKLE_PROTOCOL = 4
"""What joblib itself uses on Python 3.11 to 3.13, and the only one that ``load_page`` accepts."""


def write_page(folder: Path, number: int, datapoints: Mapping[int, Mapping[str, Any]]) -> PageRecord:
    """Writes ``page_<number>.pkl``: it appears when it is complete and on the disk.

    Args:
        folder: An existing folder.
        number: The page's number, from 0.
        datapoints: ``{datapoint_idx: {debugger_name: outputs}}``; outputs as ``debuggers.wrappers.page_values`` makes
            them, which nothing may change meanwhile. Device tensors that are still on their way are waited for.
    """
    name = f"page_{number}.pkl"
    with Checksum() as checksum, atomic_file(folder, name, sync="name") as file:
        stream = PageStream(file, checksum)
        _PagePickler(stream, protocol=PICKLE_PROTOCOL).dump(_resolved(datapoints, {}))
    return PageRecord(page=name, size=stream.size, sha256=checksum.sha256, datapoints=tuple(datapoints))


def as_number(array: Any) -> Any:
    """Returns a 0-d array as a bool, int or float; a complex one stays an array."""
    kind = np.asarray(array).dtype.kind
    if kind == "c":
        return np.asarray(array)
    return bool(array) if kind == "b" else int(array) if kind in "iu" else float(array)


def _resolved(value: Any, known: dict[int, Any]) -> Any:
    """Replaces pending arrays by their values; what was one object stays one, so that it is written once."""
    if not isinstance(value, (dict, list, tuple)) and not hasattr(value, "resolve"):
        return value
    if id(value) not in known:
        known[id(value)] = _newly_resolved(value, known)
    return known[id(value)]


def _newly_resolved(value: Any, known: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(item, known) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_resolved(item, known) for item in value)
    array = value.resolve()
    return array if array.ndim else as_number(array)


class _PagePickler(NumpyPickler):  # type: ignore[misc]  # joblib has no annotations
    """Writes what joblib writes, but no array twice, and none through a copy of its bytes."""

    def save(self, obj: Any) -> None:
        if type(obj) is not np.ndarray:
            super().save(obj)
        elif (known := self.memo.get(id(obj))) is not None:
            self.write(self.get(known[0]))
        else:
            self._save_array(obj)
            self.memoize(obj)

    def _save_array(self, array: npt.NDArray[Any]) -> None:
        """Writes an array's description, and behind it the number of bytes up to a multiple of 16, these, and its own.

        Only the description is pickle; joblib's ``NumpyArrayWrapper.write_array`` has the rest of the format.
        """
        if array.dtype.hasobject:
            raise TypeError(f"cannot write an array of dtype {array.dtype} to a page; expected numbers or bool")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        description = NumpyArrayWrapper(np.ndarray, array.shape, order, array.dtype, allow_mmap=True)
        super().save(description)
        self.framer.commit_frame(force=True)
        alignment = description.numpy_array_alignment_bytes
        padding = alignment - (self.file_handle.tell() + 1) % alignment
        self.file_handle.write(bytes([padding]) + b"\xff" * padding)
        flat = (array.T if order == "F" else array).reshape(-1)
        self.file_handle.write(flat.view(np.uint8).data)
