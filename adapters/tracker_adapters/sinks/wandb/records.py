"""The records of a ``.wandb`` file, encoded without the SDK: importing that takes seconds and can hang or fail.

The messages are those of wandb/proto/wandb_internal.proto (wandb 0.31), in protobuf's wire format
(https://protobuf.dev/programming-guides/encoding). Field numbers stand beside their names below. Old files must stay
readable to ``wandb sync``, so the numbers cannot change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_MIN_CONSUMER = "0.70.0"
"""What wandb 0.31 itself writes."""


def varint(number: int) -> bytes:
    """Returns a number from 0 to 2**64 - 1 in protobuf's variable length."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def field(number: int, value: str | bytes | int | bool | None) -> bytes:
    """Returns a field of a message; nothing for a value that is empty, zero, False or None.

    Negative numbers do not occur in these records.
    """
    if not value:
        return b""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def json_text(value: Any) -> str:
    """Returns a value as W&B's JSON, where NaN, Infinity and -Infinity are numbers."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def leaves(key: str, value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields what W&B keeps of a value: each entry of a mapping by itself, with the keys that lead to it."""
    if not isinstance(value, Mapping):
        yield (key,), value
        return
    for inner, part in value.items():
        for path, leaf in leaves(inner, part):
            yield (key, *path), leaf


def value_items(values: Mapping[str, Any]) -> bytes:
    """Returns the ``item`` or ``update`` fields (1) of a row: ``nested_key`` (2) and ``value_json`` (16)."""
    parts = [
        field(1, b"".join(field(2, step) for step in path) + field(16, json_text(leaf)))
        for key, value in values.items()
        for path, leaf in leaves(key, value)
    ]
    return b"".join(parts)


def history(number: int, items: bytes) -> bytes:
    """Returns the record of a row: ``history`` (2) with its items and its ``step`` (2), whose ``num`` is 1."""
    content = items + b"\x12" + _sized(field(1, number))
    return b"\x12" + varint(len(content)) + content


def summary(updates: bytes) -> bytes:
    """Returns the record of the last values, ``summary`` (3), from its ``update`` fields, which are like items."""
    return field(3, updates)


def header(producer: str) -> bytes:
    """Returns the record ``header`` (21) of who wrote the file: ``version_info`` (1)."""
    return field(21, field(1, field(1, producer) + field(2, _MIN_CONSUMER)))


def run(place: Mapping[str, Any], config: Mapping[str, Any], tags: Sequence[str], start_ns: int) -> bytes:
    """Returns the record ``run`` (17).

    Args:
        place: ``id``, ``entity``, ``project``, ``group``, ``name`` and ``notes``; what is missing stays empty.
        config: The run's configuration.
        tags: Its tags.
        start_ns: When it started, in nanoseconds since 1970; orders the files of one run.
    """
    numbers = {1: "id", 2: "entity", 3: "project", 6: "group", 8: "name", 9: "notes"}
    texts = b"".join(field(number, place.get(name)) for number, name in numbers.items())
    updates = b"".join(field(1, field(1, key) + field(16, json_text(value))) for key, value in config.items())
    start = field(1, start_ns // 10**9) + field(2, start_ns % 10**9)
    return field(17, texts + field(4, updates) + b"".join(field(10, tag) for tag in tags) + field(17, start))


def step_metric(key: str) -> bytes:
    """Returns the record ``metric`` (12) that makes ``key`` the x axis of every metric."""
    options = field(1, True) + field(3, True)  # step_sync, defined
    return field(12, field(2, "*") + field(4, key) + field(6, options))


def files(paths: Iterable[str]) -> bytes:
    """Returns the record ``files`` (6) of what is to be uploaded, by its path below the folder ``files``."""
    return field(6, b"".join(field(1, field(1, path)) for path in paths))


def run_exit(code: int, runtime_s: int) -> bytes:
    """Returns the record ``exit`` (18), the last one of a run that has ended."""
    return b"\x92\x01" + _sized(field(1, code) + field(2, runtime_s))


def artifact(place: Mapping[str, str | None], about: Mapping[str, str], entry: Mapping[str, Any]) -> bytes:
    """Returns the record ``artifact`` (8) of a W&B artifact that holds one file.

    Args:
        place: ``id``, ``entity`` and ``project`` of the run.
        about: ``type``, ``name``, ``digest``, ``metadata``, ``client_id`` and ``sequence_client_id``.
        entry: Of its file, ``path``, ``digest``, ``size``, ``local_path`` and ``skip_cache``.
    """
    contents = b"".join(
        field(number, entry[name])
        for number, name in {1: "path", 2: "digest", 4: "size", 6: "local_path", 8: "skip_cache"}.items()
    )
    layout = field(3, field(1, "storageLayout") + field(2, '"V2"'))
    manifest = field(1, 1) + field(2, "wandb-storage-policy-v1") + layout + field(4, contents)
    first = {1: place.get("id"), 2: place.get("project"), 3: place.get("entity")}
    texts = {4: about["type"], 5: about["name"], 6: about["digest"], 8: about.get("metadata"), 11: "latest"}
    ids = {15: about["client_id"], 16: about["sequence_client_id"], 20: "MANIFEST_MD5"}
    content = b"".join(field(number, text) for number, text in (first | texts).items())
    content += field(12, manifest) + field(14, True)  # manifest, finalize
    return field(8, content + b"".join(field(number, text) for number, text in ids.items()))


def _sized(content: bytes) -> bytes:
    return varint(len(content)) + content
