"""Decides what kind of artifact a value becomes when its caller does not say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tracker_adapters.errors import ArtifactError
from tracker_adapters.frames import is_frame
from tracker_adapters.values.image import Layout
from tracker_adapters.values.pictures import is_picture, layouts_of
from tracker_adapters.values.plain import MAX_DEPTH
from tracker_adapters.values.tensors import is_tensor

if TYPE_CHECKING:
    from tracker_adapters.emitter import Emitter

EXPECTED = (
    "expected a number, a tensor, an array, a str, a picture (matplotlib, Pillow), a data frame, a Path, or a mapping"
)


class LogsByValue:
    """Gives an emitter ``log``."""

    def log(self, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """Emits several values by their names; the type of each value chooses the kind of its artifact.

        - scalar: a number; a tensor or array without dimensions
        - image: uint8 of shape (H, W), (1, 3 or 4, H, W) or (H, W, 1, 3 or 4); a matplotlib figure; a Pillow image
        - histogram: another tensor, array or list of numbers
        - text: a str
        - table: a data frame of pandas or polars
        - file: a pathlib.Path
        - a mapping: each of its values, under ``name/key``

        If both the first and the last dimension of an image could be its channels, the last one is taken. If one of the
        values has another type, nothing is emitted.

        Raises:
            ArtifactError: For another type, and for values that the method of the artifact's kind refuses.
        """
        emitter = cast("Emitter", self)
        if not isinstance(values, Mapping):
            raise ArtifactError(f"log got {_short(values)}; expected a mapping of names to values")
        at_step = emitter if step is None else emitter.at(step)
        for emit in list(_emissions(at_step, values)):
            emit()


def _emissions(
    emitter: Emitter, values: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[Callable[[], None]]:
    if depth > MAX_DEPTH:
        raise ArtifactError(f"log: {prefix:.60} is nested more than {MAX_DEPTH} deep")
    for key, value in values.items():
        if not isinstance(key, str):
            raise ArtifactError(f"log: name {key!r} is {type(key).__name__}; expected str")
        name = prefix + key
        if isinstance(value, Mapping):
            yield from _emissions(emitter, value, f"{name}/", depth + 1)
        else:
            yield _emission(emitter, name, value)


def _emission(emitter: Emitter, name: str, value: Any) -> Callable[[], None]:
    if isinstance(value, str):
        return lambda: emitter.text(name, value)
    if isinstance(value, Path):
        return lambda: emitter.file(value, name=name)
    if is_picture(value):
        return lambda: emitter.image(name, value)
    if is_frame(value):
        return lambda: emitter.table(name, value)
    shape = _shape(name, value)
    if shape == ():
        return lambda: emitter.scalar(name, value)
    if layout := _pixel_layout(value, shape):
        return lambda: emitter.image(name, value, layout=layout)
    return lambda: emitter.histogram(name, value)


def _short(value: object) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _shape(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, (bool, int, float)):
        return ()
    if not (
        is_tensor(value) or isinstance(value, (np.generic, np.ndarray, list, tuple)) or hasattr(value, "__array__")
    ):
        raise ArtifactError(f"log: {name!r} is {_short(value)}; {EXPECTED}")
    try:
        return tuple(value.shape if hasattr(value, "shape") else np.shape(value))
    except ValueError as error:
        raise ArtifactError(f"log: {name!r} is {_short(value)}, of no shape; {EXPECTED}") from error


def _pixel_layout(value: Any, shape: tuple[int, ...]) -> Layout | None:
    """The layout of uint8 values that can be pixels; the channels come last where both ends may be them."""
    is_pixels = str(getattr(value, "dtype", "")).removeprefix("torch.") == "uint8" and 0 not in shape
    layouts = layouts_of(shape) if is_pixels else []
    return layouts[-1] if layouts else None
