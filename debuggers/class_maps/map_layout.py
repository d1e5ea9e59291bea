"""Converts a layer's output to maps, channel by channel, whose positions correspond to those of the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.layer_values.channel_order import order_of_map
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

Layout = Callable[[torch.Tensor], torch.Tensor]
"""Takes a layer's output, or the gradient with respect to it, to (batch, channels, *positions)."""
_CHANNELS_FIRST = "channels first"
_TOKENS = "tokens"
_MAX_COLOURS = 4
_RESHAPE = (
    "pass reshape=callable to (batch, channels, height, width), such as lambda x: x.unsqueeze(2) for (batch, channels, "
    "length) or lambda x: x.transpose(1, 2).unflatten(2, (height, width)) for (batch, tokens, channels)"
)


def map_layout(output: torch.Tensor, layer: torch.nn.Module, model: torch.nn.Module, inputs: Any) -> Layout:
    """Returns how an output becomes (batch, channels, *positions), with two or three dimensions of positions.

    - (batch, channels, height, width), and the same in three dimensions, stay as they are; of channels that come last,
      see ``channel_order.order_of_map``, the dimension is moved.
    - (batch, channels, length) becomes (batch, channels, 1, length).
    - (batch, tokens, channels): the tokens become a grid of the image's aspect, a square one without an image. If their
      number does not fit, the first is taken for a class token and dropped. Of a model with integer inputs only, such
      as text, they become one row. The batch may be the second dimension, as in ``torch.nn.MultiheadAttention`` by
      default.

    Three dimensions are tokens or one-dimensional channels by the layer's type, else by the types in the model:
    convolution, pooling and batch norm "1d" against layer norm and attention. With both of them, a model of images has
    tokens.

    Args:
        output: The layer's output.
        layer: The layer.
        model: Where it lies.
        inputs: The model's inputs, nested in any structure.

    Raises:
        DebuggerConfigError: When the positions cannot be determined.
    """
    image = first_image(inputs)
    if output.ndim in (4, 5):
        size = None if image is None else image_size(image)
        return _as_it_is if order_of_map(output, layer, size) == "first" else lambda output: output.movedim(-1, 1)
    if output.ndim != 3:
        raise DebuggerConfigError(
            f"the layer's output has the shape {tuple(output.shape)}, which has no positions to map; choose a layer "
            f"before it, or {_RESHAPE}"
        )
    if _sequence_kind(output, layer, model, image) == _CHANNELS_FIRST:
        return lambda output: output.unsqueeze(2)
    samples_second = _has_samples_second(output, layer, batch_size(inputs))
    samples_first: Layout = (lambda output: output.transpose(0, 1)) if samples_second else _as_it_is
    skipped, rows, columns = _token_grid(samples_first(output).shape[1], image, inputs)

    def layout(output: torch.Tensor) -> torch.Tensor:
        tokens = samples_first(output)
        return tokens[:, skipped:].transpose(1, 2).reshape(len(tokens), -1, rows, columns)

    return layout


def checked_layout(reshape: Layout) -> Layout:
    """Returns a caller's layout that refuses results of another form than (batch, channels, *positions)."""

    def layout(output: torch.Tensor) -> torch.Tensor:
        maps = reshape(output)
        if not isinstance(maps, torch.Tensor) or maps.ndim not in (4, 5):
            shown = tuple(maps.shape) if isinstance(maps, torch.Tensor) else type(maps).__name__
            raise DebuggerConfigError(
                f"reshape took {tuple(output.shape)} to {shown}; expected (batch, channels, height, width) or "
                "(batch, channels, depth, height, width)"
            )
        return maps

    return layout


def first_image(inputs: Any) -> torch.Tensor | None:
    """Returns the first image (batch, channels, height, width), or video with a depth, in a structure, or None."""
    return next((tensor for tensor in tensors_in(inputs) if tensor.ndim in (4, 5) and tensor.numel()), None)


def image_size(image: torch.Tensor) -> tuple[int, int]:
    """Returns height and width of an image or video, whose up to four channels may also come last."""
    is_last = image.shape[-1] <= _MAX_COLOURS < min(image.shape[1], image.shape[-2])
    height, width = image.shape[-3:-1] if is_last else image.shape[-2:]
    return height, width


def batch_size(inputs: Any) -> int | None:
    """Returns how many samples a model's inputs are; None where there is no image, and no text (batch, tokens)."""
    image = first_image(inputs)
    if image is not None:
        return len(image)
    given = tensors_in(inputs)
    is_text = bool(given) and all(tensor.ndim == 2 and not tensor.is_floating_point() for tensor in given)
    return len(given[0]) if is_text else None


def _as_it_is(output: torch.Tensor) -> torch.Tensor:
    return output


def _has_samples_second(output: torch.Tensor, layer: torch.nn.Module, samples: int | None) -> bool:
    first, second, _ = output.shape
    if samples is None or second != samples:
        return False
    if first == samples and any(getattr(module, "batch_first", True) is False for module in layer.modules()):
        raise DebuggerConfigError(
            f"the layer's output has the shape {tuple(output.shape)} for {samples} samples, which may be its first or "
            f"second dimension; {_RESHAPE}"
        )
    return first != samples


def _sequence_kind(
    output: torch.Tensor, layer: torch.nn.Module, model: torch.nn.Module, image: torch.Tensor | None
) -> str:
    for modules in ([layer], model.modules()):
        kinds = _kinds(modules)
        if len(kinds) == 1:
            return kinds.pop()
    if kinds and image is None:
        raise DebuggerConfigError(
            f"the layer's output has the shape {tuple(output.shape)}, in a model of both one-dimensional convolutions "
            f"and tokens; {_RESHAPE}"
        )
    return _TOKENS


def _kinds(modules: Iterable[torch.nn.Module]) -> set[str]:
    names = [type(module).__name__ for module in modules]
    kinds = {_CHANNELS_FIRST} if any(name.endswith("1d") for name in names) else set()
    if any(name.endswith(("LayerNorm", "RMSNorm", "Attention")) for name in names):
        kinds.add(_TOKENS)
    return kinds


def _token_grid(tokens: int, image: torch.Tensor | None, inputs: Any) -> tuple[int, int, int]:
    """Returns how many tokens come before the grid, and its rows and columns."""
    given = tensors_in(inputs)
    if given and not any(tensor.is_floating_point() for tensor in given) and image is None:
        return 0, 1, tokens
    height, width = image_size(image) if image is not None else (1, 1)
    for skipped in (0, 1):
        count = max(0, tokens - skipped)
        rows = round(math.sqrt(count * height / width))
        columns = count // max(rows, 1)
        if count and rows * columns == count and rows * width == columns * height:
            return skipped, rows, columns
    aspect = f"an image of {height} x {width}" if image is not None else "a square"
    raise DebuggerConfigError(f"{tokens} tokens, with or without a class token, form no grid for {aspect}; {_RESHAPE}")
