"""Reads the columns that a viewer answers, as a page does."""

import json
from typing import Any

import numpy as np


def columns_of(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the meta information of an answer, and its arrays by name."""
    length = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + length])
    place = _aligned(4 + length)
    arrays = {}
    for column in header["columns"]:
        dtype = np.dtype(column["dtype"]).newbyteorder("<")
        count = int(np.prod(column["shape"], dtype=np.int64))
        arrays[column["name"]] = np.frombuffer(body, dtype, count, place).reshape(column["shape"])
        place = _aligned(place + count * dtype.itemsize)
    assert place == len(body)
    return header["meta"], arrays


def _aligned(place: int) -> int:
    return place + -place % 8
