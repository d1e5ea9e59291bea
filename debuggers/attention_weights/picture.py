"""Draws attention maps, head beside head, so that a person can see them."""

import math

from debuggers.layer_values.picture_grid import MAX_MAPS, MIN_MAP_PIXELS
from debuggers.layer_values.values import real_values
from debuggers.torch_import import torch

MAX_MAP_PIXELS = 256
"""A map's longer sides are pooled to as many pixels."""
GAP = 0.5
"""The brightness between the maps: grey, because most of a map is black."""


def attention_picture(attention_map: torch.Tensor, per_head: bool) -> torch.Tensor:
    """Returns the maps of the first datapoint in a nearly square grid, as (height, width) from 0 to 1.

    All heads share one scale, from 0 to the largest finite weight. A pixel of a long sequence shows the largest
    of the weights that it stands for, because a mean would hide single ones. NaN stays NaN. At most the first 64
    heads are shown. Works on any device without waiting for it.

    Args:
        attention_map: (..., heads, queries, keys), or without heads (..., queries, keys); not empty.
        per_head: Whether there are heads.
    """
    weights = real_values(attention_map)
    heads = weights if per_head else weights.unsqueeze(-3)
    maps = _pooled(heads.reshape(-1, *heads.shape[-3:])[0, :MAX_MAPS])
    largest = torch.where(torch.isfinite(maps), maps, 0).amax()
    maps = (maps / torch.where(largest > 0, largest, 1)).clamp(0, 1)
    factor = max(1, math.ceil(MIN_MAP_PIXELS / max(maps.shape[1:])))
    return _grid(maps.repeat_interleave(factor, 1).repeat_interleave(factor, 2))


def _pooled(maps: torch.Tensor) -> torch.Tensor:
    height, width = maps.shape[1:]
    if max(height, width) <= MAX_MAP_PIXELS:
        return maps
    size = (min(height, MAX_MAP_PIXELS), min(width, MAX_MAP_PIXELS))
    return torch.nn.functional.adaptive_max_pool2d(maps, size)


def _grid(maps: torch.Tensor) -> torch.Tensor:
    columns = math.ceil(math.sqrt(len(maps)))
    rows = math.ceil(len(maps) / columns)
    cells = torch.nn.functional.pad(maps, (0, 1, 0, 1, 0, rows * columns - len(maps)), value=GAP)
    grid = cells.reshape(rows, columns, *cells.shape[1:]).transpose(1, 2)
    return grid.reshape(rows * cells.shape[1], columns * cells.shape[2])[:-1, :-1]
