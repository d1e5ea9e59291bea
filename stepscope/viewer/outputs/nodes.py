"""Debug outputs as a tree of typed nodes, which a page, a notebook and another viewer show alike. Needs no torch.

A node is a dictionary that JSON can hold, with ``key`` and ``kind``:

- ``group``: ``children``, nodes;
- ``table``: ``rows`` of a name and a number, text or null each;
- ``text``: ``text``, and ``length`` in characters where it is cut; ``error`` likewise, the reason a debugger gave;
- ``array``: ``shape``, ``dtype``, ``statistics`` (see ``arrays.statistics``), ``values`` of a short row of numbers, and
  ``pictures``;
- ``left_out``: ``count`` of what is not shown because there is too much of it.

A picture has ``place`` (where the array lies: the positions of its entry in each mapping or list, joined by dots),
``form``, ``width`` and ``height`` in pixels, and for maps how they lie side by side.
"""

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from stepscope.viewer.outputs.arrays import Array, is_numeric, number, statistics
from stepscope.viewer.outputs.pictures import (
    as_image,
    as_maps,
    image_png,
    image_size,
    key_map,
    maps_png,
    overlay_factor,
    overlay_png,
    sheet_of,
)

MAX_NODES = 2000
MAX_LEVELS = 16
MAX_TEXT = 20_000
MAX_ROW = 64
"""So many numbers are shown one by one; of more their distribution."""
_SHORT = 200
_KEPT = "datapoint"
_OVER_IMAGE = ("cam", "saliency", "heatmap", "overlay")
_ATTENTION = ("attention", "attn", "rollout")

Node: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[int, ...]


class PlaceError(ValueError):
    """A place that leads to nothing that can be drawn."""


def describe(datapoint: Mapping[str, Any]) -> dict[str, list[Node]]:
    """Returns the sections of a datapoint: ``inputs``, ``labels``, ``meta_info`` and ``debug``, each a list of nodes.

    ``labels`` has the model's outputs and scores beside the labels; a section may be empty.

    Args:
        datapoint: ``{debugger: outputs}`` as a page holds it; the datapoint itself under ``datapoint``, if it was kept.
    """
    budget = _Budget()
    image = input_image(datapoint)
    sections: dict[str, list[Node]] = {"inputs": [], "labels": [], "meta_info": [], "debug": []}
    for position, (debugger, outputs) in enumerate(datapoint.items()):
        if debugger == _KEPT and isinstance(outputs, Mapping):
            for inner, (field, value) in enumerate(outputs.items()):
                section = field if field in sections and field != "debug" else "labels"
                described = _node(str(field), value, (position, inner), budget, image, is_input=field == "inputs")
                sections[section].append(described)
        else:
            sections["debug"].append(_node(str(debugger), outputs, (position,), budget, image))
    return sections


def draw(datapoint: Mapping[str, Any], place: Place, form: str, first: int = 0) -> bytes:
    """Returns the PNG file of a picture that ``describe`` names.

    Args:
        datapoint: What ``describe`` was given.
        place: The picture's place.
        form: ``image``, ``maps`` or ``overlay``.
        first: The first map that is shown; 64 are shown at most.

    Raises:
        PlaceError: When there is no such picture.
    """
    value, around = _at(datapoint, place)
    if isinstance(value, np.ndarray) and is_numeric(value):
        if form == "image" and (image := as_image(value)) is not None:
            return image_png(image)
        maps = as_maps(value, channels_last=_channels_last(around))
        if form == "maps" and maps is not None and 0 <= first < len(maps):
            return maps_png(maps, first)
        image = input_image(datapoint)
        if form == "overlay" and image is not None and (over := _over_image(_last_key(datapoint, place), value, image)):
            return overlay_png(over[0], image)
    raise PlaceError(f"place {'.'.join(map(str, place))} has no picture of the form {form!r}, from {first} on")


def input_image(datapoint: Mapping[str, Any]) -> Array | None:
    """Returns the first image among the inputs that a page keeps, as (H, W, channels); None without one."""
    kept = datapoint.get(_KEPT)
    inputs = kept.get("inputs") if isinstance(kept, Mapping) else None
    for value in inputs.values() if isinstance(inputs, Mapping) else (inputs,):
        if value is not None and is_numeric(value) and (image := as_image(value)) is not None:
            return image
    return None


class _Budget:
    def __init__(self) -> None:
        self.left = MAX_NODES

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def _node(
    key: str,
    value: Any,
    place: Place,
    budget: _Budget,
    image: Array | None,
    *,
    is_input: bool = False,
    around: Any = None,
) -> Node:
    if isinstance(value, np.ndarray) and is_numeric(value) and value.ndim:
        return _array(key, value, place, image, is_input=is_input, channels_last=_channels_last(around))
    if isinstance(value, (list, tuple)) and value and _is_row(value):
        return _array(key, np.asarray(value, np.float64), place, None, is_input=False, channels_last=False)
    if isinstance(value, (Mapping, list, tuple)) and value and len(place) < MAX_LEVELS:
        return _group(key, value, place, budget, image, is_input=is_input)
    if _is_short(value):
        return {"key": key, "kind": "table", "rows": [[key, _cell(value)]]}
    return _text(key, value)


def _group(key: str, value: Any, place: Place, budget: _Budget, image: Array | None, *, is_input: bool) -> Node:
    rows: list[list[Any]] = []
    children: list[Node] = []
    left_out = 0
    for position, (name, item) in enumerate(_items(value)):
        if not budget.spend():
            left_out = len(value) - position
            break
        if name == "error" and isinstance(item, str):
            children.append({**_text("error", item), "kind": "error"})
        elif _is_short(item):
            rows.append([_cut(str(name), _SHORT), _cell(item)])
        else:
            name = _cut(str(name), _SHORT)
            around = value if isinstance(value, Mapping) else None
            children.append(_node(name, item, (*place, position), budget, image, is_input=is_input, around=around))
    if left_out:
        children.append({"key": "", "kind": "left_out", "count": left_out})
    if rows and not children:
        return {"key": key, "kind": "table", "rows": rows}
    table = [{"key": "", "kind": "table", "rows": rows}] if rows else []
    return {"key": key, "kind": "group", "children": [*table, *children]}


def _array(key: str, array: Array, place: Place, image: Array | None, *, is_input: bool, channels_last: bool) -> Node:
    values = array.reshape(-1)
    row = [number(value) for value in values.astype(np.float64)] if array.size <= MAX_ROW else None
    flat = sum(length > 1 for length in array.shape) <= 1
    return {
        "key": key,
        "kind": "array",
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "statistics": statistics(array),
        "values": row if flat else None,
        "pictures": list(_pictures(key, array, place, image, is_input=is_input, channels_last=channels_last)),
    }


def _pictures(
    key: str, array: Array, place: Place, image: Array | None, *, is_input: bool, channels_last: bool
) -> Iterator[dict[str, Any]]:
    common = {"place": ".".join(map(str, place))}
    shown = as_image(array) if is_input else None
    if shown is not None:
        width, height = image_size(shown)
        yield common | {"form": "image", "width": width, "height": height}
        return
    if image is not None and (over := _over_image(key, array, image)):
        width, height = (side * overlay_factor(image) for side in image_size(image))
        yield common | {"form": "overlay", "width": width, "height": height, "caption": over[1]}
    maps = as_maps(array, channels_last=channels_last)
    if maps is not None:
        sheet = sheet_of(maps)
        yield common | {
            "form": "maps", "width": sheet.width, "height": sheet.height,
            "maps": len(maps), "columns": sheet.columns, "block": sheet.block,
        }  # fmt: skip


def _over_image(key: str, array: Array, image: Array) -> tuple[Array, str] | None:
    """Returns the map that is drawn over the image, and what it is; None for an array that is none."""
    name = key.lower()
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if any(word in name for word in _ATTENTION) and "distribution" not in name and array.ndim >= 2 and array.size:
        found = key_map(array, image)
        return None if found is None else (found, "attention to each place of the input")
    if any(word in name for word in _OVER_IMAGE) and array.ndim == 2 and array.size:
        return array, "over the input"
    return None


def _at(datapoint: Mapping[str, Any], place: Place) -> tuple[Any, Any]:
    value: Any = datapoint
    around: Any = None
    for position in place:
        items = list(_items(value)) if isinstance(value, (Mapping, list, tuple)) else []
        if not 0 <= position < len(items):
            raise PlaceError(f"place {'.'.join(map(str, place))} leads to nothing")
        around, value = value, items[position][1]
    return value, around


def _last_key(datapoint: Mapping[str, Any], place: Place) -> str:
    around, _ = _at(datapoint, place[:-1])
    return str(list(_items(around))[place[-1]][0])


def _items(value: Any) -> Any:
    return value.items() if isinstance(value, Mapping) else enumerate(value)


def _channels_last(around: Any) -> bool:
    return isinstance(around, Mapping) and around.get("channels_last") is True


def _is_row(value: Any) -> bool:
    return all(
        isinstance(item, (bool, int, float)) and (isinstance(item, float) or abs(item) < 2**53) for item in value
    )


def _is_short(value: Any) -> bool:
    if isinstance(value, (list, tuple)):  # such as a shape
        return len(value) <= 8 and all(isinstance(item, (bool, int)) for item in value)
    if isinstance(value, np.ndarray):
        return value.ndim == 0
    return (
        value is None
        or isinstance(value, (bool, int, float, np.generic))
        or (isinstance(value, str) and len(value) <= _SHORT and "\n" not in value)
    )


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return " × ".join(map(str, value)) if value else "empty"
    if isinstance(value, (np.ndarray, np.generic)):
        value = (
            value.item()
            if value.dtype.kind in "biuf"
            else float(value)
            if is_numeric(np.asarray(value))
            else str(value)
        )
    return number(value) if isinstance(value, (bool, int, float)) else value


def _text(key: str, value: Any) -> Node:
    if isinstance(value, np.ndarray):
        value = f"array of {value.dtype}, shape {value.shape}: {np.array2string(value, threshold=20)}"
    text = (
        value
        if isinstance(value, str)
        else "empty"
        if isinstance(value, (dict, list, tuple)) and not value
        else reprlib.repr(value)
    )
    node: Node = {"key": key, "kind": "text", "text": text[:MAX_TEXT]}
    return node | {"length": len(text)} if len(text) > MAX_TEXT else node


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
