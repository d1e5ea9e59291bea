"""What the built-in debuggers share: checked values of a layer's output, numbers that need no waiting, and pictures."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.base_debugger import Picture
from debuggers.host_arrays.readable import readable_tensor
from debuggers.layer_values.picture_grid import picture_grid
from debuggers.measurement.kernels.availability import is_usable
from debuggers.measurement.kernels.spread import spread_of
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

_COMPILED_FROM = 1 << 14  # elements; torch's operations are as fast on fewer
_SPREAD = ("mean", "std", "min", "max")
Number = float | torch.Tensor
"""A float; on a device a 0-d tensor, because reading it would make the host wait."""


def output_tensor(output: Any) -> tuple[torch.Tensor, dict[str, int]]:
    """Returns the first tensor in a layer's output, and ``{"tensors_left_out": n}`` where there are n others.

    Layers such as ``torch.nn.LSTM`` and those of transformers return their result first, beside their state: in tuples,
    lists, mappings and data classes, nested in any way.

    Raises:
        ArtifactError: When it holds none.
    """
    if isinstance(output, torch.Tensor):
        return output, {}
    try:
        first, *others = tensors_in(output)
    except Exception as error:  # there is none, or the output is an odd object that cannot be searched
        raise ArtifactError(f"Output is not a tensor: got {type(output).__name__}") from error
    return first, {"tensors_left_out": len(others)} if others else {}


def plain_output(output: Any) -> torch.Tensor:
    """Returns a layer's output as a dense tensor of real values without gradient.

    Quantised values are dequantised; of a DTensor it is the local shard. It may share memory with ``output``.

    Raises:
        ArtifactError: When the output is no tensor, or one without plain real values.
    """
    if not isinstance(output, torch.Tensor):
        raise ArtifactError(f"Output is not a tensor: got {type(output).__name__}")
    try:
        values = readable_tensor(output)
    except ArtifactError as error:
        raise ArtifactError(f"Output has no plain values: {error}") from error
    except Exception as error:  # unusual tensors fail in unusual ways
        raise ArtifactError(f"Output is a {type(output).__name__} without plain values: {error}") from error
    if values.is_complex():
        raise ArtifactError(f"Output is a complex tensor ({values.dtype}); expected real values, such as its modulus")
    return values


def real_values(output: Any) -> torch.Tensor:
    """Returns a layer's output without gradient, in a dtype that its statistics can be computed in.

    float32 and float64 stay; float16, bfloat16 and float8 become float32, integers and bool float64. It may
    share memory with ``output``.

    Raises:
        ArtifactError: When the output is no tensor, or one without plain real values.
    """
    values = plain_output(output)
    if values.dtype in (torch.float32, torch.float64):
        return values
    try:
        return values.float() if values.is_floating_point() else values.double()
    except RuntimeError as error:
        raise ArtifactError(f"Output has the dtype {values.dtype}, which torch cannot convert: {error}") from error


def number(value: torch.Tensor) -> Number:
    """Returns a 0-d tensor as a float if it lies on the host, else as it is."""
    return float(value) if value.device.type == "cpu" else value


def numbers(values: torch.Tensor) -> list[float] | torch.Tensor:
    """Returns a tensor (n,) as a list of float if it lies on the host, else as (1, n).

    As (n,) it could be taken for one number for each datapoint of a batch.
    """
    return values.tolist() if values.device.type == "cpu" else values[None]


def spread(values: torch.Tensor) -> dict[str, Number]:
    """Returns mean, std (with Bessel's correction), min and max.

    NaN anywhere makes all four NaN. An empty tensor gives NaN, and so does the std of a single value.
    """
    found = _compiled_spread(values, None) if _may_be_compiled(values) else None
    return _spread_by_torch(values) if found is None else found


def copy_and_spread(output: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, dict[str, Number]]:
    """Returns a copy of a layer's output, and ``spread(values)`` of its ``real_values``; reads them once if it can."""
    if values.dtype != output.dtype or type(output) is not torch.Tensor or not _may_be_compiled(values):
        return output.detach().clone(), spread(values)
    copy = torch.empty_like(values)
    found = _compiled_spread(values, copy)
    return copy, _spread_by_torch(values) if found is None else found


def _spread_by_torch(values: torch.Tensor) -> dict[str, Number]:
    if not values.numel():
        return dict.fromkeys(_SPREAD, float("nan"))
    low, high = torch.aminmax(values)
    std = number(values.std()) if values.numel() > 1 else float("nan")
    return dict(zip(_SPREAD, (number(values.mean()), std, number(low), number(high)), strict=True))


def _may_be_compiled(values: torch.Tensor) -> bool:
    return (
        values.device.type == "cpu"
        and values.dtype in (torch.float32, torch.float64)
        and values.numel() >= _COMPILED_FROM
        and torch.ops.aten.is_non_overlapping_and_dense(values)
        and is_usable()
    )


def _compiled_spread(values: torch.Tensor, copy: torch.Tensor | None) -> dict[str, Number] | None:
    """The same in one pass, a tenth as long; None for what is not finite. ``copy`` has the strides of the values."""
    found = spread_of(values, copy)
    return None if found is None else dict(zip(_SPREAD, found, strict=True))


def channels_first(outputs: Mapping[str, Any], name: str) -> Any:
    """Returns a debugger's output (B, H, W, C) as (B, C, H, W) if it says ``channels_last``, any other as it is."""
    values = outputs.get(name)
    if isinstance(values, torch.Tensor) and values.ndim == 4 and outputs.get("channels_last"):
        return values.movedim(-1, 1)
    return values


def map_pictures(name: str, maps: Any) -> Iterator[Picture]:
    """Yields the maps of the first datapoint side by side: (B, C, H, W), or (B, H, W) as one map.

    Anything else, None and empty tensors included, makes no picture.
    """
    if not isinstance(maps, torch.Tensor) or maps.ndim not in (3, 4) or not maps.numel():
        return
    first = real_values(maps)[0]
    yield Picture(name, picture_grid(first if first.ndim == 3 else first[None]))
