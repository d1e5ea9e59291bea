"""Turns what debuggers return into what a page holds: copies of arrays, and plain values."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import Histogram
from tracker_adapters.values.narrow_floats import is_narrow_float

from debuggers.base_debugger import Picture
from debuggers.errors import ArgumentTypeError
from debuggers.host_arrays.block_memory import Empty
from debuggers.host_arrays.deferred import DeferredRow, DeferredTensor
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.page_files.index import DATAPOINT
from debuggers.page_files.saving import as_number
from debuggers.page_files.unpickling import MAX_DIMENSIONS, MAX_INTEGER_BYTES
from debuggers.torch_import import torch

_MAX_DEPTH = 50
_MAX_CONTAINERS = 100_000
_PLAIN = (bool, int, float, str, bytes, type(None))


def host_copy(outputs: Any, empty: Empty = np.empty) -> Any:
    """Returns ``outputs`` as a page holds them; nothing in it shares memory with the original.

    Tensors and arrays become NumPy arrays (on a device: pending ones), 0-d ones plain numbers. Named tuples,
    data classes and mappings become dicts, sets and arrays of text or dates lists. What cannot be kept
    becomes ``{"error": reason}``; a path its text. A ``Picture`` becomes its array, which belongs to every datapoint of
    a batch, and the arrays in a ``TensorSummary`` or ``Histogram`` lists. A tensor that occurs twice is copied once.

    Args:
        outputs: What debuggers returned, nested in any structure.
        empty: Makes the arrays that what lies on the host is copied to.
    """
    return _Copier(empty).copy(outputs, 0)


def check_outputs(outputs: Any) -> None:
    """Checks that something is ``{debugger_name: outputs}``, whatever the outputs are.

    Raises:
        ArgumentTypeError: For anything else.
    """
    if not isinstance(outputs, Mapping):
        raise ArgumentTypeError(f"outputs: got a {type(outputs).__name__}; expected a dict {{debugger_name: outputs}}")
    for name in outputs:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"outputs: a debugger's name is {name!r}; expected a str")


def by_datapoint(copies: dict[str, Any], indices: int | Sequence[int]) -> dict[int, dict[str, Any]]:
    """Returns ``{datapoint_idx: {debugger_name: outputs}}`` from what ``host_copy`` returned.

    With one index, everything belongs to it. With several, arrays whose first dimension is as long are cut
    along it, and everything else belongs to each datapoint. Of the datapoint itself, lists of as many plain
    values are cut too: collated text has one entry a row.
    """
    if isinstance(indices, int):
        return {indices: copies}
    rows = len(indices)
    return {
        idx: {name: _row(value, rows, row, name == DATAPOINT) for name, value in copies.items()}
        for row, idx in enumerate(indices)
    }


def _row(value: Any, rows: int, row: int, cut_lists: bool) -> Any:
    if isinstance(value, np.ndarray):
        return _cut(value, row) if value.ndim and value.shape[0] == rows else value
    if isinstance(value, DeferredTensor):
        return DeferredRow(value, row, rows) if value.shape[:1] == (rows,) else value
    if isinstance(value, dict):
        return {key: _row(item, rows, row, cut_lists) for key, item in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    if not all(isinstance(item, _PLAIN) for item in value):
        return type(value)(_row(item, rows, row, cut_lists) for item in value)
    return value[row] if cut_lists and isinstance(value, list) and len(value) == rows else value


def _cut(array: Any, row: int) -> Any:
    return as_number(array[row]) if array.ndim == 1 else array[row]


class _Copier:
    def __init__(self, empty: Empty) -> None:
        self._empty = empty
        # The values hold on to the originals: an id is only theirs as long as they live.
        self._known: dict[int, tuple[Any, Any]] = {}
        self._open: set[int] = set()
        self._containers = 0

    def copy(self, value: Any, depth: int) -> Any:
        if _is_plain(value):
            return value
        try:
            return self._copy(value, depth)
        except Exception as error:  # unusual values fail in unusual ways, and none may stop the run
            return {"error": f"cannot keep a {type(value).__name__}: {error}"}

    def _copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            if id(value) not in self._known:
                if value.ndim > MAX_DIMENSIONS:
                    raise ValueError(f"it has {value.ndim} dimensions; a page holds arrays of at most {MAX_DIMENSIONS}")
                copy = _tensor_copy if isinstance(value, torch.Tensor) else _numpy_copy
                self._known[id(value)] = (value, copy(value, self._empty))
            return self._known[id(value)][1]
        if isinstance(value, Picture):
            return _whole(self.copy(value.values, depth))
        if isinstance(value, (TensorSummary, Histogram)):
            items = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {name: item.tolist() if isinstance(item, np.ndarray) else item for name, item in items.items()}
        parts = _parts(value)
        if parts is None:
            return _plain(value)
        if not isinstance(parts, Mapping) and all(map(_is_plain, parts)):
            return tuple(parts) if isinstance(parts, tuple) else list(parts)
        if id(value) in self._open:
            raise ValueError("it contains itself")
        self._containers += 1
        if depth >= _MAX_DEPTH or self._containers > _MAX_CONTAINERS:
            raise ValueError(f"it lies more than {_MAX_DEPTH} levels deep or behind {_MAX_CONTAINERS} other containers")
        self._open.add(id(value))
        try:
            if isinstance(parts, Mapping):
                return self._mapping_copy(parts, depth)
            copies = [self.copy(item, depth + 1) for item in parts]
            return tuple(copies) if isinstance(parts, tuple) else copies
        finally:
            self._open.remove(id(value))

    def _mapping_copy(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        copies: dict[Any, Any] = {}
        for key, item in value.items():
            if (kept := _key(key)) in copies:
                raise ValueError(f"two of its keys are {kept!r} as text")
            copies[kept] = self.copy(item, depth + 1)
        return copies


class WholeArray:
    """An array, pending or not, that is never cut into the rows of a batch; ``nbytes`` is its size in bytes."""

    __slots__ = ("_array", "nbytes")

    def __init__(self, array: npt.NDArray[Any] | DeferredTensor) -> None:
        self._array = array
        self.nbytes = array.nbytes

    def resolve(self) -> npt.NDArray[Any]:
        """Waits for the array and returns it."""
        return self._array.resolve() if isinstance(self._array, DeferredTensor) else self._array


def _whole(copy: Any) -> Any:
    return WholeArray(copy) if isinstance(copy, (np.ndarray, DeferredTensor)) else copy


def _tensor_copy(value: Any, empty: Empty) -> Any:
    copy = DeferredTensor(value, empty)
    # A copy on the host is there already.
    if value.device.type == "cuda":
        return copy
    array = copy.resolve()
    return array if array.ndim else as_number(array)


def _numpy_copy(value: Any, empty: Empty) -> Any:
    if np.ma.is_masked(value):
        raise ValueError("its masked elements have no values; expected value.filled(...)")
    array: np.ndarray[Any, Any] = np.asarray(value)
    if array.dtype.kind in "USMm":
        return array.astype(str).tolist()
    if array.dtype.kind not in "biufc" and not is_narrow_float(array.dtype):
        raise ValueError(f"dtype {array.dtype}; expected numbers, bool, text or dates")
    if not array.ndim:
        return as_number(array)
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _parts(value: Any) -> Mapping[Any, Any] | Collection[Any] | None:
    """What a container holds; None for what is no container."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    return value if isinstance(value, (Mapping, tuple, list, AbstractSet)) else None


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN and (type(value) is not int or value.bit_length() < 8 * MAX_INTEGER_BYTES)


def _key(key: Any) -> Any:
    return key if _is_plain(key) else str(key)


def _plain(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() >= 8 * MAX_INTEGER_BYTES:
        raise ValueError(
            f"it has {value.bit_length()} bits; a page holds integers of at most {MAX_INTEGER_BYTES} bytes"
        )
    if isinstance(value, (int, float)):  # subclasses, such as members of an IntEnum
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, (str, bytes)):
        return str.__str__(value) if isinstance(value, str) else bytes(value)
    if isinstance(value, (PathLike, torch.dtype, torch.device)):
        return str(value)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return {"error": f"cannot keep a {name}: expected tensors, arrays or plain values"}
