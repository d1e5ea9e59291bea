"""What the built-in debuggers share: checked values of a layer's output, and numbers that need no waiting."""

from __future__ import annotations

from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.deferred import plain_tensor
from debuggers.torch_import import torch

Number = float | torch.Tensor
"""A float; on a device a 0-d tensor, because reading it would make the host wait."""


def real_values(output: Any) -> torch.Tensor:
    """Returns a layer's output without gradient, in a dtype that its statistics can be computed in.

    float32 and float64 stay; float16, bfloat16 and float8 become float32, integers and bool float64. It may
    share memory with ``output``.

    Raises:
        ArtifactError: When the output is no tensor, or one without plain real values.
    """
    if not isinstance(output, torch.Tensor):
        raise ArtifactError("Output is not a tensor")
    if output.is_complex():
        raise ArtifactError(f"Output is a complex tensor ({output.dtype}); its statistics need real values")
    values = plain_tensor(output)
    if not values.is_floating_point():
        return values.double()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def number(value: torch.Tensor) -> Number:
    """Returns a 0-d tensor as a float if it lies on the host, else as it is."""
    return float(value) if value.device.type == "cpu" else value


def numbers(values: torch.Tensor) -> list[float] | torch.Tensor:
    """Returns a 1-d tensor as a list of float if it lies on the host, else as it is."""
    return values.tolist() if values.device.type == "cpu" else values


def spread(values: torch.Tensor) -> dict[str, Number]:
    """Returns mean, std (with Bessel's correction), min and max.

    NaN anywhere makes all four NaN. An empty tensor gives NaN, and so does the std of a single value.
    """
    if not values.numel():
        return dict.fromkeys(("mean", "std", "min", "max"), float("nan"))
    low, high = torch.aminmax(values)
    return {
        "mean": number(values.mean()),
        "std": number(values.std()) if values.numel() > 1 else float("nan"),
        "min": number(low),
        "max": number(high),
    }
