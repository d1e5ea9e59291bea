"""What ``log`` is given, frozen at the call and emitted at its step."""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.frames import is_frame
from tracker_adapters.values.base import check_name
from tracker_adapters.values.pictures import is_picture
from tracker_adapters.values.plain import MAX_DEPTH
from tracker_adapters.values.tensors import check_readable, is_device_tensor, is_tensor

from stepscope.compat.media import drawn_now, single
from stepscope.compat.wandb.data_types import DataType, Image, Table


def frozen(data: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yields names with values that no longer change; entries of a mapping are ``name/key``, None is left out.

    Raises:
        ArtifactError: For a key that is no str, a value of an unknown type, and too deep a nesting.
    """
    if depth > MAX_DEPTH:
        raise ArtifactError(f"log: {prefix:.60} is nested more than {MAX_DEPTH} deep")
    for key, value in data.items():
        if not isinstance(key, str):
            raise ArtifactError(f"log: key {key!r} is {type(key).__name__}; expected str")
        name = prefix + check_name("log", key)
        if isinstance(value, Mapping):
            yield from frozen(value, f"{name}/", depth + 1)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], DataType):
            yield from ((f"{name}/{index}", _frozen(name, one)) for index, one in enumerate(value))
        elif value is not None:
            yield name, _frozen(name, value)


def _frozen(name: str, value: Any) -> Any:
    value = drawn_now(value)
    if isinstance(value, Table):
        return value.copied()
    if isinstance(value, (DataType, str, Path)):
        return value
    if isinstance(value, (numbers.Real, np.bool_)):
        return float(value)
    if is_tensor(value):
        check_readable(f"log: {name!r}", value)
        if value.numel() != 1:
            return value.detach().clone()
        one = single(name, value)
        return one.clone() if is_device_tensor(value) else float(one)
    if is_picture(value):
        return Image(value)
    if is_frame(value):
        return Table(dataframe=value)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return _array(name, np.array(value))
    if isinstance(value, (list, tuple)):
        try:
            array = np.array(value)
        except ValueError:  # rows of several lengths
            array = np.array(None)
        return _array(name, array) if array.dtype.kind in "biuf" else json.dumps(value, default=str)
    raise ArtifactError(
        f"log: {name!r} is {type(value).__name__} {value!r:.60}; expected a number, a tensor, an array, a str, "
        "a data type of W&B, a picture, a data frame, or a mapping"
    )


def _array(name: str, array: Any) -> Any:
    if array.dtype.kind not in "biuf":
        raise ArtifactError(f"log: {name!r} is an array of {array.dtype}; expected real numbers")
    return float(array.reshape(())) if array.size == 1 else array


def put(emitter: Emitter, name: str, value: Any, step: int) -> None:
    """Emits a frozen value."""
    if isinstance(value, DataType):
        value.put(emitter, name, step)
    elif isinstance(value, str):
        emitter.text(name, value, step=step)
    elif isinstance(value, Path):
        emitter.file(value, name=name, step=step)
    elif isinstance(value, float) or value.ndim == 0:
        emitter.scalar(name, value, step=step)
    else:
        emitter.histogram(name, value, step=step)
