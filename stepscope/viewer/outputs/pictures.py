"""Pictures of arrays, made of NumPy alone: images in their colours, maps side by side, a map over its image."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.png import encode

from debuggers.pictures.colours import HEAT, INFINITE_COLOUR, NAN_COLOUR, viridis
from stepscope.viewer.outputs.arrays import Array, as_floats, finite_range

MAX_MAPS = 64
"""So many maps are shown in one picture."""
MIN_MAP_SIDE = 32
"""Smaller maps are enlarged by a whole factor, so that the gap between them stays thin."""
MAX_SIDE = 768
"""Larger maps and images are shown with several of their elements in one pixel."""
_OVERLAY_SIDE = 256
_GAP = 2
_OPACITY = 0.85
_CHANNELS = (1, 3, 4)
_MAX_AXES = 32
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """How maps lie side by side: ``count`` maps in rows of ``columns``, each cell of so many pixels.

    ``factor`` says how often a map's element is repeated in each direction, ``block`` how many elements of each
    direction share a pixel, which then shows the largest of them.
    """

    count: int
    columns: int
    cell_height: int
    cell_width: int
    factor: int
    block: int

    @property
    def width(self) -> int:
        """In pixels."""
        return self.columns * (self.cell_width + _GAP) - _GAP

    @property
    def height(self) -> int:
        """In pixels."""
        return math.ceil(self.count / self.columns) * (self.cell_height + _GAP) - _GAP


def as_maps(array: Array, *, channels_last: bool = False) -> Array | None:
    """Returns an array as maps (N, H, W), N >= 1, H and W >= 2; None when it is none.

    Leading dimensions of length 1 are dropped; (H, W) is one map, of more than three dimensions all but the last two
    count the maps.

    Args:
        array: Any array.
        channels_last: Whether the last of three dimensions or more counts the maps.
    """
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if channels_last and array.ndim >= 3:
        array = np.moveaxis(array, -1, -3)
    if array.ndim < 2 or array.ndim > _MAX_AXES or min(array.shape[-2:]) < 2 or not array.size:
        return None
    return array.reshape(-1, *array.shape[-2:])


def as_image(array: Array) -> Array | None:
    """Returns an image as (H, W, 1, 3 or 4); None when the shape is none of (H, W), (C, H, W) and (H, W, C)."""
    while array.ndim > 3 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[..., None]
    elif array.ndim == 3 and array.shape[0] in _CHANNELS:
        array = np.moveaxis(array, 0, -1)
    if array.ndim != 3 or array.shape[-1] not in _CHANNELS or min(array.shape[:2]) < 2:
        return None
    return array


def sheet_of(maps: Array, first: int = 0) -> Sheet:
    """Returns how the maps from the given one on are laid out."""
    count, (height, width) = min(MAX_MAPS, len(maps) - first), maps.shape[1:]
    columns = math.ceil(math.sqrt(count))
    factor = max(1, math.ceil(MIN_MAP_SIDE / max(height, width)))
    block = max(1, math.ceil(max(height, width) * columns / MAX_SIDE))
    cell_height, cell_width = (factor * math.ceil(side / block) for side in (height, width))
    return Sheet(
        count=count, columns=columns, cell_height=cell_height, cell_width=cell_width, factor=factor, block=block
    )


def maps_png(maps: Array, first: int = 0) -> bytes:
    """Returns maps (N, H, W) side by side in viridis, on one scale from the smallest to the largest of all N.

    NaN and infinities have colours of their own. The gaps between maps are transparent.
    """
    sheet, low_high = sheet_of(maps, first), finite_range(maps)
    shown = maps[first : first + sheet.count]
    for axis, length in ((1, shown.shape[1]), (2, shown.shape[2])):
        if sheet.block > 1:  # the largest; NaN stays visible
            shown = np.maximum.reduceat(shown, np.arange(0, length, sheet.block), axis=axis)
    colours = _coloured(as_floats(shown), *low_high).repeat(sheet.factor, 1).repeat(sheet.factor, 2)
    rows = math.ceil(sheet.count / sheet.columns)
    cells = np.zeros((rows * sheet.columns, sheet.cell_height + _GAP, sheet.cell_width + _GAP, 4), np.uint8)
    cells[: sheet.count, :-_GAP, :-_GAP, :3] = colours
    cells[: sheet.count, :-_GAP, :-_GAP, 3] = 255
    grid = cells.reshape(rows, sheet.columns, *cells.shape[1:]).swapaxes(1, 2)
    flat = grid.reshape(rows * cells.shape[1], sheet.columns * cells.shape[2], 4)
    return encode(np.ascontiguousarray(flat[:-_GAP, :-_GAP]))


def image_png(image: Array) -> bytes:
    """Returns an image (H, W, 1, 3 or 4) as PNG; uint8 as it is, else from its smallest to its largest finite value.

    NaN has a colour of its own.
    """
    return encode(_image_pixels(_reduced(image)))


def image_size(image: Array) -> tuple[int, int]:
    """Returns the width and height that ``image_png`` gives it."""
    block = _block(image)
    return math.ceil(image.shape[1] / block), math.ceil(image.shape[0] / block)


def overlay_png(activation_map: Array, image: Array) -> bytes:
    """Returns a map (h, w) over its image (H, W, 1, 3 or 4), enlarged bilinearly.

    The image is shown in grey below it. The colours go from 0 to the map's largest value, and are the more opaque the
    larger the value is.
    """
    pixels = _image_pixels(_reduced(image))
    grey = (pixels @ _LUMINANCE if pixels.ndim == 3 and pixels.shape[-1] == 3 else _first_channels(pixels)) / 255
    factor = overlay_factor(image)
    grey = grey.repeat(factor, 0).repeat(factor, 1)[..., None]
    strength = _resized(as_floats(activation_map), *grey.shape[:2])
    missing = ~np.isfinite(strength)
    strength = np.where(missing, 0.0, strength)
    largest = strength.max(initial=0.0)
    strength = (strength / largest if largest > 0 else strength).clip(0, 1)
    opacity = _OPACITY * strength[..., None]
    places = np.linspace(0, 1, len(HEAT))
    colours = np.stack([np.interp(strength, places, channel) for channel in np.transpose(HEAT)], axis=-1)
    drawn = np.round(255 * (grey * (1 - opacity) + colours * opacity)).astype(np.uint8)
    drawn[missing] = _rgb(NAN_COLOUR)
    return encode(drawn)


def overlay_factor(image: Array) -> int:
    """Returns how often an overlay repeats the image's pixels in each direction."""
    return max(1, _OVERLAY_SIDE // max(image_size(image)))


def key_map(attention: Array, image: Array) -> Array | None:
    """Returns attention (..., queries, keys) as a map (h, w) over the image; None where the keys are no grid of it.

    It is the weight of each key, averaged over heads and queries. With one key more than the grid has places, the
    first is taken as a class token: the map is then what the first query looks at among the others.
    """
    keys = attention.shape[-1]
    weights = as_floats(attention).reshape(-1, *attention.shape[-2:]).mean(0)
    for skipped in (0, 1):
        grid = _grid_of(keys - skipped, image.shape[0] / image.shape[1])
        if grid is not None:
            row = weights[0, 1:] if skipped else weights.mean(0)
            over: Array = row.reshape(grid)
            return over
    return None


def _grid_of(places: int, aspect: float) -> tuple[int, int] | None:
    height = round(math.sqrt(places * aspect)) if places > 3 else 0
    if not height or places % height:
        return None
    width = places // height
    return (height, width) if abs(height / width - aspect) <= 0.1 * aspect else None


def _coloured(values: npt.NDArray[np.float64], low: float, high: float) -> Pixels:
    span = high - low if np.isfinite(high - low) and high > low else 1.0
    finite = np.where(np.isfinite(values), values, low)
    places = ((finite - low) / span * 255).clip(0, 255).astype(np.uint8)
    colours = viridis(np.linspace(0, 1, 256))[places]
    colours[np.isnan(values)] = _rgb(NAN_COLOUR)
    colours[np.isinf(values)] = _rgb(INFINITE_COLOUR)
    return colours


def _image_pixels(image: Array) -> Pixels:
    """(H, W) for grey, (H, W, 3 or 4) for colours."""
    if image.dtype == np.uint8:
        return image[..., 0] if image.shape[-1] == 1 else np.ascontiguousarray(image)
    values = as_floats(image)
    low, high = finite_range(values)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / (high - low or 1.0)
    pixels = np.round(shares.clip(0, 1) * 255).astype(np.uint8)
    missing = ~np.isfinite(values).all(-1)
    if pixels.shape[-1] == 1:
        if not missing.any():
            return pixels[..., 0]
        pixels = pixels.repeat(3, -1)
    pixels[missing, :3] = _rgb(NAN_COLOUR)
    return pixels


def _first_channels(pixels: Pixels) -> npt.NDArray[np.float64]:
    shown: npt.NDArray[np.float64] = (pixels if pixels.ndim == 2 else pixels[..., :3] @ _LUMINANCE).astype(np.float64)
    return shown


def _block(image: Array) -> int:
    return max(1, math.ceil(int(max(image.shape[0], image.shape[1])) / MAX_SIDE))


def _reduced(image: Array) -> Array:
    block = _block(image)
    return image[::block, ::block] if block > 1 else image


def _resized(values: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.float64]:
    """Bilinear, with pixels as areas: the corners of both lie on each other."""
    for axis, length in ((0, height), (1, width)):
        places = ((np.arange(length) + 0.5) * values.shape[axis] / length - 0.5).clip(0, values.shape[axis] - 1)
        below = np.floor(places).astype(np.int64)
        above = np.minimum(below + 1, values.shape[axis] - 1)
        share = (places - below).reshape((-1, 1) if axis == 0 else (1, -1))
        values = values.take(below, axis) * (1 - share) + values.take(above, axis) * share
    return values


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
