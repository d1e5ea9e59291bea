"""The position of the channels in a layer's output: (batch, channels, *positions), or (batch, *positions, channels)."""

from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

from debuggers.errors import DebuggerConfigError
from debuggers.torch_import import torch

Order: TypeAlias = Literal["first", "last"]
_FIRST = (torch.nn.GroupNorm, torch.nn.PixelShuffle, torch.nn.PixelUnshuffle, torch.nn.Upsample)
_LAST = (torch.nn.Linear, torch.nn.Embedding, torch.nn.MultiheadAttention, torch.nn.RNNBase)
_NORMS = ("LayerNorm", "RMSNorm")
_KNOWN: WeakKeyDictionary[torch.nn.Module, bool] = WeakKeyDictionary()
"""Whether layers that were met have their channels last: to look through a large one takes time."""
_TOLERANCE = 0.1
"""How far the aspects of a grid and its image may differ: convolutions without padding lose some of the border."""


def order_of_type(module: torch.nn.Module) -> Order | None:
    """Returns the channel order that a module's type implies, or None.

    Channels come first where a name ends in ``1d``, ``2d`` or ``3d`` (convolution, pooling, batch norm, and the
    ``LayerNorm2d`` of several libraries), and last in a linear layer or a layer norm over one dimension.
    """
    name = type(module).__name__
    if name.endswith(("1d", "2d", "3d")) or isinstance(module, _FIRST):
        return "first"
    if name.endswith(_NORMS):
        return "last" if len(getattr(module, "normalized_shape", (1,))) == 1 else None
    return "last" if isinstance(module, _LAST) else None


def orders_inside(module: torch.nn.Module) -> set[Order]:
    """Returns the channel orders that the types of a module and its submodules imply."""
    return {order for part in module.modules() if (order := order_of_type(part)) is not None}


def checked_channels_last(value: bool | None) -> bool | None:
    """Returns an argument ``channels_last``.

    Raises:
        DebuggerConfigError: For anything but True, False and None.
    """
    if value not in (True, False, None):
        raise DebuggerConfigError(f"channels_last is {value!r}; expected True, False or None")
    return value


def has_channels_last(module: torch.nn.Module, values: torch.Tensor, given: bool | None) -> bool:
    """Returns whether an output of three dimensions or more has its channels last.

    Args:
        module: The layer: without ``given``, its own type decides, or else the types in it if all say the same.
        values: Its output.
        given: The user's setting.
    """
    if values.ndim < 3 or given is not None:
        return bool(given) and values.ndim >= 3
    if module not in _KNOWN:
        own = order_of_type(module)
        _KNOWN[module] = own == "last" if own is not None else orders_inside(module) == {"last"}
    return _KNOWN[module]


def order_of_map(output: torch.Tensor, layer: torch.nn.Module, image: tuple[int, int] | None) -> Order:
    """Returns the order of an output of four or five dimensions.

    The layer's own type decides. Else it is the order whose positions have the aspect of the image; where that is true
    of both or of neither, channels come first, as in all of torch's own modules for images.

    Args:
        output: (batch, channels, *positions) or (batch, *positions, channels).
        layer: The layer.
        image: Height and width of the model's input, if it has an image.

    Raises:
        DebuggerConfigError: When neither type nor aspect decides, and all that lies in the layer has channels last.
    """
    own = order_of_type(layer)
    if own is not None:
        return own
    inside = orders_inside(layer)
    as_first = image is not None and _has_aspect(output.shape[-2:], image)
    as_last = image is not None and _has_aspect(output.shape[-3:-1], image) and output.shape[-1] > 1
    if as_last and not as_first:
        return "first" if inside == {"first"} else "last"
    if inside == {"last"} and as_first == as_last:
        raise _unknown(output)
    return "first"


def _has_aspect(grid: torch.Size, image: tuple[int, int]) -> bool:
    (rows, columns), (height, width) = grid, image
    expected = columns * height / width
    return abs(rows - expected) <= max(1.0, _TOLERANCE * max(rows, expected))


def _unknown(output: torch.Tensor) -> DebuggerConfigError:
    return DebuggerConfigError(
        f"the layer's output has the shape {tuple(output.shape)}, and its channels may come first or last; pass "
        "reshape=lambda x: x.movedim(-1, 1) if they come last, reshape=lambda x: x if they come first"
    )
