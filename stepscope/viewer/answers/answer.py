"""What an answer is: bytes of a media type, and the position of the runs at which it was made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracker_adapters.errors import StepscopeError

if TYPE_CHECKING:
    import numpy.typing as npt

JSON = "application/json"
COLUMNS = "application/octet-stream"
_ALIGNED = 8
_DTYPES = frozenset({"float64", "float32", "int32", "uint32", "uint8"})


class AnswerError(StepscopeError):
    """There is no answer; ``status`` is that of HTTP."""

    status = 500


class BadRequest(AnswerError):
    """A parameter is missing or wrong; the message names it, its value and what was expected."""

    status = 400


class NotFound(AnswerError):
    """There is no such address, run or name."""

    status = 404


class TooLarge(AnswerError):
    """What was asked for is too large to be handed out; the message says where it lies."""

    status = 413


class Gone(AnswerError):
    """A run that was there cannot be read: it was deleted, is damaged, or comes from a newer version."""

    status = 410


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answers.

    Attributes:
        body: The bytes.
        media_type: ``application/json``, ``application/octet-stream`` for columns, ``image/png``, ``text/plain``.
        position: How far the runs were read when it was made; see ``RunList.position``.
        download: The name under which a browser saves it, in place of showing it.
        is_behind: Whether the runs are further by now, so that it is not the answer at their position.
        chunks: Of an answer that is long, makes the bytes that come behind ``body``, a part at a time.
    """

    body: bytes
    media_type: str
    position: str = ""
    download: str = ""
    is_behind: bool = False
    chunks: Callable[[], Iterator[bytes]] | None = None


def json_answer(value: object, position: str = "", *, is_behind: bool = False) -> Answer:
    """Returns an answer of plain values; NaN and infinities are the strings NaN, Infinity and -Infinity."""
    try:
        body = _dumped(value)
    except (TypeError, ValueError):  # something in it has no word in JSON; looking for that takes longer than the rest
        body = _dumped(_plain(value))
    return Answer(body.encode(errors="replace"), JSON, position, is_behind=is_behind)


def columns_answer(
    meta: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]], position: str = "", *, is_behind: bool = False
) -> Answer:
    """Returns an answer of arrays, little-endian.

    On the wire: a uint32 with the length of the header; the header, JSON ``{"meta": …, "columns": [{"name", "dtype",
    "shape"}]}``; zeros up to a multiple of 8; then each array with zeros up to a multiple of 8.

    Args:
        meta: Plain values; NaN and infinities as in ``json_answer``.
        columns: Arrays of any shape. float64, float32, int32, uint32 and uint8 go as they are, bool as uint8, other
            numbers as float64.
        position: As in ``Answer``.
        is_behind: The same.
    """
    arrays = {name: _sent(array) for name, array in columns.items()}
    listed = [{"name": name, "dtype": str(array.dtype), "shape": array.shape} for name, array in arrays.items()]
    header = json_answer({"meta": meta, "columns": listed}).body
    parts = [len(header).to_bytes(4, "little") + header]
    parts += [array.tobytes() for array in arrays.values()]
    return Answer(
        b"".join(part + bytes(-len(part) % _ALIGNED) for part in parts), COLUMNS, position, is_behind=is_behind
    )


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sent(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    import numpy as np

    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    dtype = array.dtype.newbyteorder("<") if str(array.dtype) in _DTYPES else np.dtype("<f8")
    return np.ascontiguousarray(array, dtype)


def json_number(value: float | None) -> float | str | None:
    """Returns a number as JSON answers have it: NaN and infinities are strings."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is no plain value becomes its text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    return str(value)
