"""The image artifact: pixels encoded once as PNG, so that every sink gets the same bytes."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.arrays import as_array
from tracker_adapters.values.base import Artifact
from tracker_adapters.values.png import SIGNATURE, encode, encode_in_parts

Layout: TypeAlias = Literal["CHW", "HWC", "HW"]
_NAN_COLOUR = np.array([255, 0, 255, 255], dtype=np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Artifact):
    """A picture as PNG bytes; ``width`` and ``height`` in pixels."""

    kind: ClassVar[str] = "image"
    png: bytes
    width: int
    height: int

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        if not isinstance(self.png, bytes) or not self.png.startswith(SIGNATURE):
            found = f"{self.png[:8]!r}…" if isinstance(self.png, bytes) else type(self.png).__name__
            raise ArtifactError(f"image {self.name!r}: png is {found}; expected the bytes of a PNG file")

    @classmethod
    def from_array(
        cls,
        name: str,
        values: Any,
        *,
        step: int,
        layout: Layout,
        value_range: tuple[float, float] | None = None,
        time_ns: int | None = None,
    ) -> Self:
        """Encodes an array; see ``pixels`` for the arguments and errors."""
        return cls.from_pixels(name, pixels(name, values, layout, value_range), step=step, time_ns=time_ns)

    @classmethod
    def from_pixels(cls, name: str, array: npt.NDArray[np.uint8], *, step: int, time_ns: int | None = None) -> Self:
        """Encodes what ``pixels`` returned."""
        height, width = array.shape[:2]
        png = encode(array)
        now = time.time_ns() if time_ns is None else time_ns
        return cls(name=name, step=step, time_ns=now, png=png, width=width, height=height)

    @classmethod
    def in_parts(
        cls, name: str, array: npt.NDArray[np.uint8], *, step: int, time_ns: int
    ) -> Generator[bool, None, Image]:
        """Encodes it some milliseconds at a time, and yields true after each; its value is the artifact."""
        height, width = array.shape[:2]
        png = yield from encode_in_parts(array)
        return cls(name=name, step=step, time_ns=time_ns, png=png, width=width, height=height)


def pixels(
    name: str, values: Any, layout: Layout, value_range: tuple[float, float] | None = None
) -> npt.NDArray[np.uint8]:
    """Returns a copy of ``values`` as uint8 pixels: (H, W) or (H, W, 3 or 4).

    Args:
        name: The artifact's name, for messages.
        values: uint8, bool (black and white) or floating point; 1, 3 or 4 channels.
        layout: The meaning of the axes: ``CHW``, ``HWC`` or ``HW``.
        value_range: For floating point, required: the values shown as black and as full brightness. Values
            beyond it, infinities included, take the nearer end. NaN is painted magenta.

    Raises:
        ArtifactError: For another layout, shape, dtype or range.
    """
    what = f"image {name!r}"
    if layout not in get_args(Layout):
        raise ArtifactError(f"{what}: layout is {layout!r}; expected one of {', '.join(get_args(Layout))}")
    array = as_array(what, values)
    if array.ndim != len(layout):
        raise ArtifactError(f"{what}: got shape {array.shape}; expected {len(layout)} axes for layout {layout}")
    if layout == "CHW":
        array = np.moveaxis(array, 0, -1)
    if layout != "HW" and array.shape[-1] not in (1, 3, 4):
        raise ArtifactError(f"{what}: got {array.shape[-1]} channels for layout {layout}; expected 1, 3 or 4")
    if not array.size:
        raise ArtifactError(f"{what}: got shape {array.shape} with no pixels; expected at least 1 x 1")
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.dtype.kind == "f":
        return _quantise(what, array, value_range)
    if value_range is not None:
        raise ArtifactError(f"{what}: value_range is for floating point; {array.dtype} values are shown as they are")
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype != np.uint8:
        raise ArtifactError(f"{what}: got dtype {array.dtype}; expected uint8, bool or floating point with value_range")
    return np.array(array, dtype=np.uint8, order="C")


def _quantise(what: str, array: npt.NDArray[Any], value_range: tuple[float, float] | None) -> npt.NDArray[np.uint8]:
    if value_range is None:
        raise ArtifactError(
            f"{what}: floating-point values need value_range=(low, high), for example (0.0, 1.0); "
            "otherwise the brightness of pictures could not be compared"
        )
    try:
        low, high = (float(end) for end in value_range)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"{what}: value_range is {value_range!r}; expected two numbers (low, high)") from error
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ArtifactError(f"{what}: value_range is {value_range!r}; expected finite numbers with low < high")
    wide = array.astype(np.float64)
    missing = np.isnan(wide)
    clipped = np.clip(np.where(missing, low, wide), low, high)
    if not np.isfinite(high - low):  # a range that spans all of float64
        clipped, low, high = clipped / 2, low / 2, high / 2
    scaled = (clipped - low) / (high - low)
    shown = np.round(scaled * 255).astype(np.uint8)
    if not missing.any():
        return shown
    if shown.ndim == 2:
        shown = np.repeat(shown[..., None], 3, axis=-1)
        missing = np.repeat(missing[..., None], 3, axis=-1)
    shown[missing.any(axis=-1)] = _NAN_COLOUR[: shown.shape[-1]]  # opaque, also where alpha is NaN
    return shown
