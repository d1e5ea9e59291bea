"""Scalars as encoded rows of a W&B history: the path that a long run spends its time on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker_adapters.sink import ScalarColumns
from tracker_adapters.sinks.wandb.keys import STEP_KEY, Keys
from tracker_adapters.sinks.wandb.records import field, varint

_NOT_IN_JSON = {b"nan": b"NaN", b"inf": b"Infinity", b"-inf": b"-Infinity"}
_VARINTS = [varint(number) for number in range(4096)]
_CONTINUED = [bytes([low | 0x80]) for low in range(128)]
_OWN_KEYS = (STEP_KEY, "_timestamp", "_runtime", "_step")


class Encoded(NamedTuple):
    """``records`` are rows of the history; ``last`` has each key's last ``item``, which is also an ``update``."""

    records: list[bytes]
    last: dict[str, bytes]


class ScalarEncoder:
    """Encodes scalars as ``records.history`` would, from heads that are made once for each name.

    An item is its head, which tells the length of what follows, and a number as JSON, at most 24 bytes.
    """

    def __init__(self, keys: Keys, start_ns: int) -> None:
        self._keys = keys
        self._start_ns = start_ns
        self._heads: dict[str, dict[int, bytes]] = {}
        self._own = [_Heads(key) for key in _OWN_KEYS]

    def encode(self, columns: ScalarColumns, first_row: int) -> Encoded:
        """Returns one row for consecutive scalars of one step; a name that comes again starts another row.

        A row has the time of its first scalar, and W&B's own step counts the rows from ``first_row``.
        """
        if not len(columns):
            return Encoded([], {})
        names = columns.names
        items = self._items(names, columns.values)
        starts = _row_starts(names, columns.steps.tolist())
        step, timestamp, runtime, number = self._own
        times_ns = columns.times_ns[starts]
        own = zip(
            _texts(columns.steps[starts].tolist()),
            _texts((times_ns / 1e9).tolist()),
            _texts(np.round((times_ns - self._start_ns) / 1e9, 6).tolist()),
            _texts(range(first_row, first_row + len(starts))),
            strict=True,
        )
        records: list[bytes] = []
        rows = zip(starts, [*starts[1:], len(names)], _varints_from(first_row, len(starts)), own, strict=True)
        for start, stop, num, (step_text, timestamp_text, runtime_text, number_text) in rows:
            content = b"".join(
                (
                    step[len(step_text)], step_text, timestamp[len(timestamp_text)], timestamp_text,
                    *items[start:stop],
                    runtime[len(runtime_text)], runtime_text, number[len(number_text)], number_text,
                    b"\x12", _VARINTS[1 + len(num)], b"\x08", num,
                )
            )  # fmt: skip
            size = len(content)
            records.append(b"\x12" + (_VARINTS[size] if size < len(_VARINTS) else varint(size)) + content)
        last = dict(zip(names, items, strict=True))
        texts = (step_text, timestamp_text, runtime_text, number_text)
        own_items = (heads[len(text)] + text for heads, text in zip(self._own, texts, strict=True))
        return Encoded(records, last | dict(zip(_OWN_KEYS, own_items, strict=True)))

    def _items(self, names: Sequence[str], values: npt.NDArray[np.float64]) -> list[bytes]:
        texts = _texts(values.tolist())
        if not np.isfinite(values).all():
            texts = [_NOT_IN_JSON.get(text, text) for text in texts]
        heads = self._heads
        for name in set(names).difference(heads):
            heads[name] = _Heads(self._keys.of("scalar", name))
        return [heads[name][len(text)] + text for name, text in zip(names, texts, strict=True)]


class _Heads(dict[int, bytes]):
    """What stands before a key's value, by the length of the value."""

    def __init__(self, key: str) -> None:
        self._key = field(2, key) + b"\x82\x01"  # nested_key; then the tag of value_json (16)

    def __missing__(self, size: int) -> bytes:
        head = b"\x0a" + varint(len(self._key) + 1 + size) + self._key + varint(size)
        self[size] = head
        return head


def _varints_from(first: int, count: int) -> list[bytes]:
    """The varints of consecutive numbers, of which 128 each share all but the first byte."""
    found: list[bytes] = []
    for high in range(first >> 7, (first + count + 0x7F) >> 7):
        tail = varint(high)
        found += [low + tail for low in _CONTINUED] if high else _VARINTS[:128]
    return found[first & 0x7F :][:count]


def _row_starts(names: Sequence[str], steps: Sequence[int]) -> list[int]:
    starts: list[int] = []
    here: set[str] = set()
    current: int | None = None
    for place, (name, step) in enumerate(zip(names, steps, strict=True)):
        if step != current or name in here:
            starts.append(place)
            here = set()
            current = step
        here.add(name)
    return starts


def _texts(numbers: Sequence[float] | range) -> list[bytes]:
    """Each number as Python writes it; joined and split again, since that takes a tenth of the time."""
    return "\n".join(map(repr, numbers)).encode().split(b"\n")
