"""Says where a layer's output lies in the input: turns it into channels of maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op

Layout = Callable[[torch.Tensor], torch.Tensor]
"""Takes a layer's output, or the gradient with respect to it, to (batch, channels, *positions)."""
_CHANNELS_FIRST = "channels first"
_TOKENS = "tokens"
_RESHAPE = (
    "pass reshape=callable to (batch, channels, height, width), such as lambda x: x.unsqueeze(2) for (batch, channels, "
    "length) or lambda x: x.transpose(1, 2).unflatten(2, (height, width)) for (batch, tokens, channels)"
)


def map_layout(output: torch.Tensor, layer: torch.nn.Module, model: torch.nn.Module, inputs: Any) -> Layout:
    """Returns how an output becomes (batch, channels, *positions), with two or three dimensions of positions.

    - (batch, channels, height, width), and the same in three dimensions, stay as they are.
    - (batch, channels, length) becomes (batch, channels, 1, length).
    - (batch, tokens, channels): the tokens become a grid of the image's aspect, a square one without an image. If their
      number does not fit, the first is taken for a class token and dropped. Of a model with integer inputs only, such
      as text, they become one row.

    Three dimensions are tokens or one-dimensional channels by the layer's type, else by the types in the model:
    convolution, pooling and batch norm "1d" against layer norm and attention. With both of them, a model of images has
    tokens.

    Args:
        output: The layer's output.
        layer: The layer.
        model: Where it lies.
        inputs: The model's inputs, nested in any structure.

    Raises:
        DebuggerConfigError: When the positions cannot be told.
    """
    if output.ndim in (4, 5):
        return _as_it_is
    if output.ndim != 3:
        raise DebuggerConfigError(
            f"the layer's output has the shape {tuple(output.shape)}, which has no positions to map; choose a layer "
            f"before it, or {_RESHAPE}"
        )
    image = first_image(inputs)
    if _sequence_kind(output, layer, model, image) == _CHANNELS_FIRST:
        return _as_one_row
    skipped, rows, columns = _token_grid(output.shape[1], image, inputs)
    return lambda tokens: tokens[:, skipped:].transpose(1, 2).reshape(len(tokens), -1, rows, columns)


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
    """Returns the first tensor of the form (batch, channels, height, width) in a nested structure, or None."""
    return next((tensor for tensor in _tensors(inputs) if tensor.ndim == 4 and tensor.numel()), None)


def _as_it_is(output: torch.Tensor) -> torch.Tensor:
    return output


def _as_one_row(output: torch.Tensor) -> torch.Tensor:
    return output.unsqueeze(2)


def _tensors(inputs: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    apply_tensor_op(found.append, inputs)
    return found


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
    given = _tensors(inputs)
    if given and not any(tensor.is_floating_point() for tensor in given) and image is None:
        return 0, 1, tokens
    height, width = image.shape[2:] if image is not None else (1, 1)
    for skipped in (0, 1):
        count = max(0, tokens - skipped)
        rows = round(math.sqrt(count * height / width))
        columns = count // max(rows, 1)
        if count and rows * columns == count and rows * width == columns * height:
            return skipped, rows, columns
    aspect = f"an image of {height} x {width}" if image is not None else "a square"
    raise DebuggerConfigError(f"{tokens} tokens, with or without a class token, are no grid for {aspect}; {_RESHAPE}")
