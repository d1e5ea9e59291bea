"""Rebuilds the content of a page from an allow-list of pickle operations, arrays and dtypes; nothing else is called."""

import math
import mmap
import pickle
import re
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.narrow_floats import narrow_floats

from debuggers.errors import PageError
from debuggers.page_files.limits import LIMITS, MAX_FRAME_BYTES, PageLimits

MAX_DIMENSIONS = 32
"""NumPy's own limit before version 2."""
MAX_INTEGER_BYTES = 1784
"""Python shows integers of up to 4,300 digits, because the time that it takes grows with the square of their length."""
_DTYPE_CODE = re.compile(r"b1|[iu][1248]|f[248]|f16|c8|c16|c32")
_KEYS = {str, int, float, bool, bytes, type(None)}
_MAX_HUGE_KEYS = 1000
_UNCHANGED = (
    pickle.PROTO, pickle.STOP, pickle.MARK, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1,
    pickle.BINFLOAT, pickle.SHORT_BINUNICODE, pickle.SHORT_BINBYTES, pickle.EMPTY_DICT, pickle.EMPTY_LIST,
    pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.STACK_GLOBAL,
)  # fmt: skip
"""The operations that Python's own code carries out; a few more are checked first."""


class StoredNarrowFloat:
    """Stands for an ml_dtypes scalar type, which a page only names in a dtype."""

    def __init__(self, name: str) -> None:
        self.dtype = narrow_floats()[name]


class StoredDtype:
    """Stands for ``numpy.dtype``: of what the page says, only a code and a byte order are used."""

    def __init__(self, code: object) -> None:
        if isinstance(code, StoredNarrowFloat):
            self.dtype = code.dtype
        elif isinstance(code, str) and _DTYPE_CODE.fullmatch(code):
            self.dtype = np.dtype(code)
        else:
            raise PageError(f"an array of dtype {shown(code)}; expected bool, integers or floating point")

    def build(self, state: object) -> None:
        """Sets the byte order."""
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise PageError(f"a dtype with the state {shown(state)}; expected a plain one")
        order: Any = state[1]
        if order not in ("<", ">", "|", "="):
            raise PageError(f"a dtype with the byte order {shown(order)}; expected <, >, | or =")
        self.dtype = self.dtype.newbyteorder(order)


class StoredArray:
    """Stands for joblib's ``NumpyArrayWrapper``: says which bytes behind it are which array."""

    def build(self, state: object, content: mmap.mmap) -> npt.NDArray[Any]:
        """Returns the array, a view of ``content``, and moves the position there behind the array's bytes."""
        if not isinstance(state, dict):
            raise PageError(f"an array described by {shown(state)}; expected a dict")
        dtype, shape, order = state.get("dtype"), state.get("shape"), state.get("order")
        if state.get("subclass") is not _PLAIN_ARRAY:
            raise PageError(f"an array of class {shown(state.get('subclass'))}; expected numpy.ndarray")
        if not isinstance(dtype, StoredDtype):
            raise PageError(f"an array of dtype {shown(dtype)}; expected numpy.dtype")
        if order not in ("C", "F"):
            raise PageError(f"an array in the order {shown(order)}; expected C or F")
        if not isinstance(shape, tuple) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
            raise PageError(f"an array of shape {shown(shape)}; expected a tuple of at most {MAX_DIMENSIONS} sizes")
        if state.get("numpy_array_alignment_bytes") is not None:
            content.seek(content.read_byte(), 1)
        return _view(content, shape, dtype.dtype, order)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= sys.maxsize


def _view(content: mmap.mmap, shape: tuple[int, ...], dtype: np.dtype[Any], order: Any) -> npt.NDArray[Any]:
    count, start = math.prod(shape), content.tell()
    nbytes = count * dtype.itemsize
    if nbytes > len(content) - start:
        raise PageError(f"an array of shape {shape} and {dtype}; the file has {len(content) - start} bytes left")
    if not count:
        return np.empty(shape, dtype)
    content.seek(nbytes, 1)
    return np.frombuffer(content, dtype, count, start).reshape(shape, order=order)


_PLAIN_ARRAY = object()
_NAMES: dict[tuple[str, str], object] = {
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): StoredArray,
    ("numpy", "dtype"): StoredDtype,
    ("numpy", "ndarray"): _PLAIN_ARRAY,
} | {("ml_dtypes", name): StoredNarrowFloat(name) for name in narrow_floats()}


class PageUnpickler(pickle._Unpickler):
    """Reads from a mapped file; a declared length beyond its end gets only the bytes that are there."""

    stack: list[Any]
    metastack: list[list[Any]]
    read: Callable[[int], bytes]

    def __init__(self, content: mmap.mmap, limits: PageLimits = LIMITS) -> None:
        super().__init__(content)
        self._content = content
        self._huge_keys = 0
        self._text_left = limits.text_bytes
        vars(self)["dispatch"] = _Counted(limits, len(content))  # which the pickle module looks up here

    def find_class(self, module: str, name: str) -> Any:
        """Returns what stands for a name that pages need."""
        found = _NAMES.get((module, name))
        if found is None:
            raise PageError(f"names {module[:100]}.{name[:100]}, which no page needs")
        return found

    def _call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if function is not StoredDtype or type(arguments) is not tuple or not arguments:
            raise PageError(f"calls {shown(function)} with {shown(arguments)}; expected numpy.dtype with a code")
        self.stack.append(StoredDtype(arguments[0]))

    def _make(self) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        if cls is not StoredArray or arguments != ():
            raise PageError(f"makes an object of {shown(cls)}; a page only makes joblib's NumpyArrayWrapper")
        self.stack.append(StoredArray())

    def _build(self) -> None:
        state, built = self.stack.pop(), self.stack[-1]
        if isinstance(built, StoredArray):
            self.stack[-1] = built.build(state, self._content)
        elif isinstance(built, StoredDtype):
            built.build(state)
        else:
            raise PageError(f"gives a state to {shown(built)}, which has none")

    def _frame(self) -> None:
        (nbytes,) = struct.unpack("<Q", self.read(8))
        if nbytes > (left := len(self._content) - self._content.tell()):
            raise PageError(f"a frame of {nbytes} bytes; the file has {left} left")
        if nbytes > MAX_FRAME_BYTES:
            raise PageError(f"a frame of {nbytes} bytes; expected at most {MAX_FRAME_BYTES}")
        self._unframer.load_frame(nbytes)  # type: ignore[attr-defined]

    def _long_integer(self) -> None:
        (nbytes,) = struct.unpack("<i", self.read(4))
        if not 0 <= nbytes <= MAX_INTEGER_BYTES:
            raise PageError(f"an integer of {nbytes} bytes; expected at most {MAX_INTEGER_BYTES}")
        self.stack.append(int.from_bytes(self.read(nbytes), "little", signed=True))

    def _text(self, length_format: str) -> None:
        self.stack.append(str(self._sized(length_format), "utf-8", "surrogatepass"))

    def _bytes(self, length_format: str) -> None:
        self.stack.append(self._sized(length_format))

    def _sized(self, length_format: str) -> bytes:
        (nbytes,) = struct.unpack(length_format, self.read(struct.calcsize(length_format)))
        if nbytes > len(self._content):
            raise PageError(f"a text or bytes object of {nbytes} bytes; the file has {len(self._content)}")
        self._text_left -= nbytes
        if self._text_left < 0:
            raise _beyond("text_bytes", "bytes in text and bytes objects")
        return self.read(nbytes)

    def _append(self) -> None:
        self._extend([self.stack.pop()])

    def _append_marked(self) -> None:
        self._extend(self.pop_mark())  # type: ignore[attr-defined]

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key], [value])

    def _set_marked_items(self) -> None:
        items = self.pop_mark()  # type: ignore[attr-defined]
        self._update(items[::2], items[1::2])

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise PageError(f"appends to a {type(self.stack[-1]).__name__}; expected a list")
        self.stack[-1].extend(items)

    def _update(self, keys: list[Any], values: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise PageError(f"sets an item of a {type(self.stack[-1]).__name__}; expected a dict")
        # A tuple that is nested deep enough ends the process when it is hashed, and huge integers can share one hash.
        if strange := set(map(type, keys)) - _KEYS:
            raise PageError(f"has a {strange.pop().__name__} for a key; expected plain values")
        self._huge_keys += sum(type(key) is int and key.bit_length() > 64 for key in keys)
        if self._huge_keys > _MAX_HUGE_KEYS:
            raise PageError(f"has more than {_MAX_HUGE_KEYS} integers of more than 64 bits for keys")
        self.stack[-1].update(zip(keys, values, strict=True))


class _Operations(dict[int, Any]):
    """What each pickle operation does, by its code."""

    def __missing__(self, code: int) -> Any:
        import pickletools

        names = {operation.code: operation.name for operation in pickletools.opcodes}
        raise PageError(f"has {names.get(chr(code), f'the byte {code}')} for a pickle operation")


OPERATIONS = _Operations(
    {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _UNCHANGED}
    | {
        pickle.FRAME[0]: PageUnpickler._frame,
        pickle.REDUCE[0]: PageUnpickler._call,
        pickle.NEWOBJ[0]: PageUnpickler._make,
        pickle.BUILD[0]: PageUnpickler._build,
        pickle.LONG4[0]: PageUnpickler._long_integer,
        pickle.BINUNICODE[0]: partial(PageUnpickler._text, length_format="<I"),
        pickle.BINUNICODE8[0]: partial(PageUnpickler._text, length_format="<Q"),
        pickle.BINBYTES[0]: partial(PageUnpickler._bytes, length_format="<I"),
        pickle.BINBYTES8[0]: partial(PageUnpickler._bytes, length_format="<Q"),
        pickle.APPEND[0]: PageUnpickler._append,
        pickle.APPENDS[0]: PageUnpickler._append_marked,
        pickle.SETITEM[0]: PageUnpickler._set_item,
        pickle.SETITEMS[0]: PageUnpickler._set_marked_items,
    }
)
PageUnpickler.dispatch = OPERATIONS
_MAKING = frozenset(
    operation[0]
    for operation in (
        pickle.MARK, pickle.MEMOIZE, pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2,
        pickle.TUPLE3, pickle.REDUCE, pickle.NEWOBJ, pickle.BUILD,
    )
)  # fmt: skip
"""The operations that leave more in memory than a plain value."""


class _Counted(dict[int, Any]):
    """Gives out the operations, as many as the limits allow."""

    def __init__(self, limits: PageLimits, nbytes: int) -> None:
        super().__init__(OPERATIONS)
        self._operations_left = limits.operations_of(nbytes)
        self._objects_left = limits.objects_of(nbytes)

    def __getitem__(self, code: int) -> Any:
        self._operations_left -= 1
        if self._operations_left < 0:
            raise _beyond("operations", "pickle operations")
        if code in _MAKING:
            self._objects_left -= 1
            if self._objects_left < 0:
                raise _beyond("objects", "containers, arrays and values that are met again")
        return OPERATIONS[code]


def _beyond(name: str, what: str) -> PageError:
    return PageError(
        f"holds more {what} than a page of its size should; if you trust its writer, pass "
        f"limits=PageLimits({name}=...) from debuggers.page_files.limits"
    )


def shown(value: object) -> str:
    """Returns a value from a page as an error may show it: short, and without going into containers."""
    for name, stands_for in _NAMES.items():
        if value is stands_for:
            return ".".join(name)
    if isinstance(value, (str, bytes)):
        return repr(value[:60]) + ("…" if len(value) > 60 else "")
    if type(value) is tuple and len(value) <= MAX_DIMENSIONS and all(type(item) is int for item in value):
        return f"({', '.join(map(shown, value))})"
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (int, float, type(None))):
        return repr(value)
    return f"a {type(value).__name__}"
