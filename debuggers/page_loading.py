"""Loads a page without executing anything in it: an allow-list of pickle operations, arrays and dtypes."""

from __future__ import annotations

import hashlib
import math
import mmap
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import joblib
import ml_dtypes
import numpy as np
import numpy.typing as npt

from debuggers.errors import PageError

NARROW_FLOATS: dict[str, npt.DTypeLike] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    if hasattr(ml_dtypes, name)
}
"""The dtypes that NumPy lacks; pages store them under their ml_dtypes names."""

_DTYPE_CODE = re.compile(r"b1|[iu][1248]|f[248]|f16|c8|c16|c32")
_OPERATIONS = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1,
    pickle.LONG4, pickle.BINFLOAT, pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.BINUNICODE8,
    pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.BINBYTES8, pickle.EMPTY_DICT, pickle.SETITEM,
    pickle.SETITEMS, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_TUPLE, pickle.TUPLE,
    pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.STACK_GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BUILD,
)  # fmt: skip


def load_page(
    path: str | Path, *, trusted: bool = False, size: int | None = None, sha256: str | None = None
) -> dict[int, dict[str, Any]]:
    """Returns ``{datapoint_idx: {debugger_name: outputs}}``; its arrays are read-only views of the mapped file.

    Nothing in the file is executed, and no array is made that does not lie in the file.

    Args:
        path: The page.
        trusted: Load it with ``joblib.load`` instead, which runs whatever the file says. Only for pages of
            other programs (with torch tensors inside) that you would also run as code.
        size: What the index says: bytes.
        sha256: What the index says: hexadecimal digits.

    Raises:
        PageError: For a page that is missing, damaged, no page, or not what the index says.
    """
    path = Path(path)
    with _mapped(path) as content:
        if size is not None and len(content) != size:
            raise PageError(f"{path}: has {len(content)} bytes; its index says {size}")
        if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
            raise PageError(f"{path}: its content does not match the checksum in its index; the page is damaged")
        page = joblib.load(path, mmap_mode="r") if trusted else _unpickled(path, content)
    if not _is_page(page):
        raise PageError(f"{path}: holds no page; expected {{datapoint_idx: {{debugger_name: outputs}}}}")
    return page  # type: ignore[no-any-return]


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    try:
        with path.open("rb") as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: the file is empty
        raise PageError(f"{path}: cannot be read: {error}") from error
    yield content  # never closed here: the arrays keep it as long as they live


def _unpickled(path: Path, content: mmap.mmap) -> Any:
    if content[:1] != pickle.PROTO:
        raise PageError(f"{path}: refused: does not start like a page; compressed or older formats are not read")
    try:
        return _PageUnpickler(content).load()
    except Exception as error:
        # A hostile stream can raise anything from anywhere; all of it means the same to the caller.
        reason = str(error) if isinstance(error, PageError) else f"{type(error).__name__}: {error}"
        raise PageError(f"{path}: refused: {reason}") from error


def _is_page(page: object) -> bool:
    return isinstance(page, dict) and all(
        isinstance(idx, int) and isinstance(outputs, dict) and all(isinstance(name, str) for name in outputs)
        for idx, outputs in page.items()
    )


class _StoredNarrowFloat:
    """Stands for an ml_dtypes scalar type, which a page only names in a dtype."""

    def __init__(self, name: str) -> None:
        self.dtype = np.dtype(NARROW_FLOATS[name])


class _StoredDtype:
    """Stands for ``numpy.dtype``: of what the page says, only a code and a byte order are used."""

    def __init__(self, code: object, *_: object) -> None:
        if isinstance(code, _StoredNarrowFloat):
            self.dtype = code.dtype
        elif isinstance(code, str) and _DTYPE_CODE.fullmatch(code):
            self.dtype = np.dtype(code)
        else:
            raise PageError(f"an array of dtype {code!r}; expected bool, integers or floating point")

    def __setstate__(self, state: Any) -> None:
        order, parts = state[1], state[2:5]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in parts):
            raise PageError(f"a dtype with the state {state!r}; expected a plain one")
        self.dtype = self.dtype.newbyteorder(order)


class _StoredArray:
    """Stands for joblib's NumpyArrayWrapper: says which bytes behind it are which array."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.shape = state["shape"]
        self.dtype = state["dtype"].dtype
        self.order = state["order"]
        self.alignment = state.get("numpy_array_alignment_bytes")
        if state["subclass"] is not _PLAIN_ARRAY or self.order not in ("C", "F"):
            raise PageError(f"an array of class {state['subclass']!r}, order {self.order!r}; expected a plain one")
        if type(self.shape) is not tuple or not all(type(n) is int and n >= 0 for n in self.shape):
            raise PageError(f"an array of shape {self.shape!r}; expected a tuple of sizes")

    def read(self, content: mmap.mmap) -> npt.NDArray[Any]:
        """Returns the array, a view of ``content``, and moves its position behind the array's bytes."""
        if self.alignment is not None:
            content.seek(content.read_byte(), 1)
        count = math.prod(self.shape)
        start, nbytes = content.tell(), count * self.dtype.itemsize
        if nbytes > len(content) - start:
            raise PageError(f"an array of {nbytes} bytes; the file has {len(content) - start} left")
        if not count:
            return np.empty(self.shape, self.dtype)
        content.seek(nbytes, 1)
        values = np.frombuffer(content, self.dtype, count, start)
        return values.reshape(self.shape, order=self.order)


_PLAIN_ARRAY = object()
_NAMES: dict[tuple[str, str], object] = {
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): _StoredArray,
    ("numpy", "dtype"): _StoredDtype,
    ("numpy", "ndarray"): _PLAIN_ARRAY,
} | {("ml_dtypes", name): _StoredNarrowFloat(name) for name in NARROW_FLOATS}


class _PageUnpickler(pickle._Unpickler):
    """Reads from a mapped file; a declared length beyond its end gets only the bytes that are there."""

    def __init__(self, content: mmap.mmap) -> None:
        super().__init__(content)
        self._content = content

    def find_class(self, module: str, name: str) -> Any:
        found = _NAMES.get((module, name))
        if found is None:
            raise PageError(f"names {module}.{name}, which no page needs")
        return found

    def _build(self) -> None:
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        if not isinstance(stack[-2], (_StoredArray, _StoredDtype)):
            raise PageError(f"gives a state to a {type(stack[-2]).__name__}, which has none")
        super().load_build()  # type: ignore[misc]
        if isinstance(stack[-1], _StoredArray):
            stack[-1] = stack[-1].read(self._content)

    dispatch: ClassVar[dict[int, Any]] = {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _OPERATIONS}
    dispatch[pickle.BUILD[0]] = _build
