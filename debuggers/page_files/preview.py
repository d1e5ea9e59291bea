"""Small pictures of what a page holds, for trackers that show pages without reading them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import MAX_PREVIEW_BYTES
from tracker_adapters.values.image import pixels
from tracker_adapters.values.png import encode

_SIDE = 96
"""The longest side of a picture, in pixels; larger ones are shown by every second, third … pixel."""
_MAPS = 9
"""Of many maps, such as channels, the first ones are shown side by side."""
_LEAST_SIDE = 4

Array = npt.NDArray[Any]


def preview(outputs: Any) -> bytes:
    """Returns a PNG file of the first output that looks like a picture; empty when none does.

    That is an array (H, W), one of three channels (3, H, W), whose colours these are, or one of maps (C, H, W): the
    first nine of them. With ``channels_last`` among the outputs the channels are the last dimension. The smallest
    finite value is black and the largest white; NaN is magenta.
    """
    for array in _arrays(outputs):
        maps = _as_maps(array)
        if maps is not None:
            picture = encode(pixels("preview", *_laid_out(_scaled(maps))))
            return picture if len(picture) <= MAX_PREVIEW_BYTES else b""
    return b""


def _arrays(outputs: Any) -> Iterator[Array]:
    last = isinstance(outputs, Mapping) and outputs.get("channels_last") is True
    for value in outputs.values() if isinstance(outputs, Mapping) else (outputs,):
        array = value.resolve() if hasattr(value, "resolve") else value
        if isinstance(array, np.ndarray):
            yield np.moveaxis(array, -1, 0) if last and array.ndim == 3 else array


def _as_maps(array: Array) -> Array | None:
    """Every so many pixels of the first maps, as float32 (C, H, W); None for what is no picture."""
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or not array.shape[0] or min(array.shape[1:]) < _LEAST_SIDE or array.dtype.kind == "c":
        return None
    columns = 1 if array.shape[0] in (1, 3) else math.ceil(math.sqrt(min(len(array), _MAPS)))
    stride = math.ceil(max(array.shape[1:]) * columns / _SIDE)
    return array[:_MAPS, ::stride, ::stride].astype(np.float32)


def _scaled(maps: Array) -> Array:
    finite = maps[np.isfinite(maps)].astype(np.float64)
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    return (np.clip(maps.astype(np.float64), low, high) - low) / (high - low if high > low else 1.0)


def _laid_out(maps: Array) -> tuple[Array, Any, tuple[float, float]]:
    """The picture with its layout and range, as ``pixels`` takes them."""
    count, height, width = maps.shape
    if count in (1, 3):
        return maps, "CHW", (0.0, 1.0)
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cells = np.zeros((rows * columns, height + 1, width + 1))
    cells[:count, :height, :width] = maps
    grid = cells.reshape(rows, columns, height + 1, width + 1).swapaxes(1, 2)
    return grid.reshape(rows * (height + 1), columns * (width + 1))[:-1, :-1], "HW", (0.0, 1.0)
