"""Events as protobuf's bytes, put together by hand: scalars of a whole batch cost a tenth of making messages.

The field numbers are those of tensorboard/compat/proto/event.proto and summary.proto. An event is ``wall_time`` (1,
double), ``step`` (2, varint) and ``summary`` (5); a summary here has one ``value`` (1); a value is ``tag`` (1), one of
``simple_value`` (2, float), ``image`` (4), ``histo`` (5) and ``tensor`` (8), and ``metadata`` (9). The bytes of an
image are its ``encoded_image_string`` (4).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tracker_adapters.formats.protobuf import delimited, varint

IMAGE, HISTOGRAM, TENSOR, METADATA = 4, 5, 8, 9
ENCODED_IMAGE = 4
_TAG, _VALUE, _SUMMARY = 1, 1, 5
_STEP_KEY = b"\x10"
_NUMBER = {
    8: (0x09, np.dtype([("key", "u1"), ("number", "<f8")])),
    4: (0x15, np.dtype([("key", "u1"), ("number", "<f4")])),
}
_SIMPLE_VALUE_SIZE = 5


def wall_times(times_ns: npt.NDArray[np.int64]) -> list[bytes]:
    """Returns the field ``wall_time`` of each event, seconds as a double."""
    return _numbers(8, times_ns / 1e9)


def simple_values(values: npt.NDArray[np.float64]) -> list[bytes]:
    """Returns the field ``simple_value`` of each number, rounded to float32; beyond its range it is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _numbers(4, values.astype(np.float32))


def step_field(step: int) -> bytes:
    """Returns the field ``step`` of an event."""
    return _STEP_KEY + varint(step)


def step_fields(steps: Iterable[int]) -> dict[int, bytes]:
    """Returns the field ``step`` of each distinct step."""
    return {step: step_field(step) for step in set(steps)}


def tag_field(tag: str) -> bytes:
    """Returns the field ``tag`` of a value."""
    return delimited(_TAG, tag.encode())


def scalar_head(tag: bytes) -> bytes:
    """Returns what stands between the step and the ``simple_value`` of an event with this tag field."""
    value = varint(_VALUE << 3 | 2) + varint(len(tag) + _SIMPLE_VALUE_SIZE) + tag
    return varint(_SUMMARY << 3 | 2) + varint(len(value) + _SIMPLE_VALUE_SIZE) + value


def event(wall_time: bytes, step: bytes, *value: bytes) -> bytes:
    """Returns an event from its fields ``wall_time`` and ``step`` and the fields of its one value."""
    return wall_time + step + delimited(_SUMMARY, delimited(_VALUE, *value))


def _numbers(size: int, numbers: npt.NDArray[np.floating]) -> list[bytes]:
    key, dtype = _NUMBER[size]
    fields = np.empty(numbers.size, dtype)
    fields["key"], fields["number"] = key, numbers
    content = fields.tobytes()
    return [content[start : start + size + 1] for start in range(0, len(content), size + 1)]
