"""Lays feature maps out as one picture."""

import math

from debuggers.torch_import import torch

MAX_MAPS = 64
MIN_MAP_PIXELS = 32
"""Smaller maps are enlarged by a whole factor, so that a person can see them."""


def picture_grid(maps: torch.Tensor) -> torch.Tensor:
    """Returns maps (N, H, W) side by side in a nearly square grid, as (height, width) from 0 to 1.

    All maps share one scale, from the smallest to the largest finite value. NaN stays NaN. At most the first
    64 maps are shown. Works on any device without waiting for it.
    """
    maps = maps[:MAX_MAPS].detach().float()
    count, height, width = maps.shape
    factor = max(1, math.ceil(MIN_MAP_PIXELS / max(height, width)))
    maps = _scaled(maps).repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    gap = 1
    cell_height, cell_width = height * factor + gap, width * factor + gap
    cells = maps.new_zeros(rows * columns, cell_height, cell_width)
    cells[:count, : cell_height - gap, : cell_width - gap] = maps
    grid = cells.reshape(rows, columns, cell_height, cell_width).transpose(1, 2)
    return grid.reshape(rows * cell_height, columns * cell_width)[:-gap, :-gap]


def _scaled(maps: torch.Tensor) -> torch.Tensor:
    finite = torch.isfinite(maps)
    low = torch.where(finite, maps, math.inf).amin()
    high = torch.where(finite, maps, -math.inf).amax()
    low = torch.where(torch.isfinite(low), low, 0.0)
    width = torch.where(torch.isfinite(high) & (high > low), high - low, 1.0)
    return ((maps - low) / width).clamp(0, 1)
