"""Encodes rows of a W&B history that differ in few bytes, from parts that are encoded once."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker_adapters.formats.protobuf import varint
from tracker_adapters.sinks.wandb.fields import field
from tracker_adapters.sinks.wandb.keys import STEP_KEY

_VARINTS = [varint(number) for number in range(4096)]
_CONTINUED = [bytes([low | 0x80]) for low in range(128)]
_OWN_KEYS = (STEP_KEY, "_timestamp", "_runtime", "_step")
_LONGEST_NUMBER = 32
"""Bytes; histograms come in thousands of sizes."""


class Encoded(NamedTuple):
    """``records`` are rows of the history; ``last`` has each key's last ``item``, which is also an ``update``."""

    records: list[bytes]
    last: dict[str, bytes]


class ItemHeads(dict[int, bytes]):
    """What stands before a value at a place in a row, by the length of the value's JSON; kept for numbers."""

    def __init__(self, *path: str) -> None:
        """Takes the keys that lead to the value."""
        self._key = b"".join(field(2, key) for key in path) + b"\x82\x01"  # nested_key; the tag of value_json (16)

    def __missing__(self, size: int) -> bytes:
        length = varint(size)
        head = b"\x0a" + varint(len(self._key) + len(length) + size) + self._key + length
        if size <= _LONGEST_NUMBER:
            self[size] = head
        return head


class HistoryEncoder:
    """Encodes rows as ``records.history`` would."""

    def __init__(self, start_ns: int) -> None:
        """Takes when the W&B run started, in nanoseconds since 1970."""
        self._start_ns = start_ns
        self._own = [ItemHeads(key) for key in _OWN_KEYS]

    def encode(
        self,
        steps: npt.NDArray[np.int64],
        times_ns: npt.NDArray[np.int64],
        contents: Iterable[Iterable[bytes]],
        first_row: int,
    ) -> Encoded:
        """Returns one row for each of at least one step; W&B's own step counts the rows from ``first_row``.

        ``contents`` has the items of each row beside W&B's own and the step, of which alone ``last`` tells.
        """
        step, timestamp, runtime, number = self._own
        own = zip(
            number_texts(steps.tolist()),
            number_texts((times_ns / 1e9).tolist()),
            number_texts(np.round((times_ns - self._start_ns) / 1e9, 6).tolist()),
            number_texts(range(first_row, first_row + len(steps))),
            strict=True,
        )
        records: list[bytes] = []
        rows = zip(contents, _varints_from(first_row, len(steps)), own, strict=True)
        for items, num, (step_text, timestamp_text, runtime_text, number_text) in rows:
            content = b"".join(
                (
                    step[len(step_text)], step_text, timestamp[len(timestamp_text)], timestamp_text,
                    *items,
                    runtime[len(runtime_text)], runtime_text, number[len(number_text)], number_text,
                    b"\x12", _VARINTS[1 + len(num)], b"\x08", num,
                )
            )  # fmt: skip
            size = len(content)
            records.append(b"\x12" + (_VARINTS[size] if size < len(_VARINTS) else varint(size)) + content)
        texts = (step_text, timestamp_text, runtime_text, number_text)
        last = (heads[len(text)] + text for heads, text in zip(self._own, texts, strict=True))
        return Encoded(records, dict(zip(_OWN_KEYS, last, strict=True)))


def number_texts(numbers: Sequence[float] | range) -> list[bytes]:
    """Each number as Python writes it; joined and split again, since that takes a tenth of the time."""
    return "\n".join(map(repr, numbers)).encode().split(b"\n")


def _varints_from(first: int, count: int) -> list[bytes]:
    """The varints of consecutive numbers, of which 128 each share all but the first byte."""
    found: list[bytes] = []
    for high in range(first >> 7, (first + count + 0x7F) >> 7):
        tail = varint(high)
        found += [low + tail for low in _CONTINUED] if high else _VARINTS[:128]
    return found[first & 0x7F :][:count]
