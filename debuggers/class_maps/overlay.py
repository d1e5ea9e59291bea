"""Draws a class activation map over the image that it belongs to."""

import math
from collections.abc import Iterator
from typing import Any

from debuggers.base_debugger import Picture
from debuggers.class_maps.map_layout import first_image
from debuggers.layer_values.picture_grid import picture_grid
from debuggers.pictures.colours import HEAT
from debuggers.torch_import import torch

MIN_SIDE = 256
"""Smaller images are enlarged by a whole factor, so that a person can see them."""
MAX_SIDE = 512
_GAP = 4
_ROW_HEIGHT = 16
_LUMINANCE = (0.2126, 0.7152, 0.0722)
_OPACITY = 0.85


def cam_pictures(maps: torch.Tensor | None, inputs: Any) -> Iterator[Picture]:
    """Yields the first of the maps (batch, height, width) as ``gradcam``.

    With an image (batch, 1 or 3, height, width) in the inputs: the image beside the overlay. Otherwise the map alone;
    one in three dimensions as its slices side by side. Works on any device without waiting for it.
    """
    if maps is None or not maps.numel():
        return
    first = maps[0].detach().float()
    image = first_image(inputs)
    if (
        image is not None
        and image.ndim == 4
        and image.shape[1] in (1, 3)
        and not image.is_complex()
        and first.ndim == 2
    ):
        yield Picture("gradcam", side_by_side(first, image[0]))
    else:
        slices = first if first.ndim == 3 else first[None]
        yield Picture("gradcam", picture_grid(slices.expand(-1, _ROW_HEIGHT, -1) if slices.shape[1] == 1 else slices))


def side_by_side(activation_map: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Returns an image and its overlay as (height, width, 3) from 0 to 1; NaN stays NaN.

    The image is shown from its smallest to its largest value, in grey below the overlay. The colours go from 0 to the
    map's largest value, and are the more opaque the larger the value is.

    Args:
        activation_map: (height, width), in any resolution; enlarged bilinearly.
        image: (1 or 3, height, width), of any real dtype.
    """
    picture = _resized(_scaled(image.detach().float())).movedim(0, -1).expand(-1, -1, 3)
    strength = torch.nn.functional.interpolate(
        activation_map[None, None], size=picture.shape[:2], mode="bilinear", align_corners=False
    )
    strength = _scaled(strength.squeeze(0), low=0.0).movedim(0, -1)
    grey = (picture * _on(picture.device, _LUMINANCE)).sum(-1, keepdim=True)
    opacity = _OPACITY * strength
    overlay = grey * (1 - opacity) + ramp_colours(strength) * opacity
    return torch.cat([picture, picture.new_ones(picture.shape[0], _GAP, 3), overlay], dim=1)


def ramp_colours(values: torch.Tensor) -> torch.Tensor:
    """Returns the colours (..., 3) of values (..., 1) from 0 to 1: the larger, the lighter; NaN stays NaN."""
    ramp = _on(values.device, HEAT)
    steps = torch.arange(len(ramp), device=values.device)
    nearness = (1 - (values * (len(ramp) - 1) - steps).abs()).clamp_min(0)
    return (nearness[..., None] * ramp).sum(-2)


def _on(device: torch.device, values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="cpu").to(device, non_blocking=True)


def _scaled(values: torch.Tensor, low: float | None = None) -> torch.Tensor:
    finite = torch.isfinite(values)
    start = torch.where(finite, values, math.inf).amin() if low is None else values.new_full((), low)
    high = torch.where(finite, values, -math.inf).amax()
    width = torch.where(torch.isfinite(high) & (high > start), high - start, 1.0)
    return ((values - start) / width).clamp(0, 1)


def _resized(image: torch.Tensor) -> torch.Tensor:
    longest = max(image.shape[1:])
    if longest > MAX_SIDE:
        height, width = (max(1, round(side * MAX_SIDE / longest)) for side in image.shape[1:])
        return torch.nn.functional.adaptive_avg_pool2d(image, (height, width))
    factor = math.ceil(MIN_SIDE / longest)
    return image.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
