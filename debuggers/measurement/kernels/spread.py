"""Finds mean, deviation and extremes of host memory while it copies it."""

import math

from tracker_adapters.native.extension import kernels

from debuggers.measurement.kernels.torch_threads import team
from debuggers.torch_import import torch


def spread_of(values: torch.Tensor, copy: torch.Tensor | None = None) -> tuple[float, float, float, float] | None:
    """Returns mean, std (with Bessel's correction), min and max of float32 or float64 values.

    Sums of a block of 2,048 are formed in the values' own dtype, relative to the block's mean, and joined in float64:
    mean and std are right to 1e-6 of the std. None where a value is NaN or infinite, or a sum leaves the dtype. Needs
    the compiled code; see ``availability``.

    Args:
        values: At least two on the host, dense in any order of the dimensions.
        copy: What the values are copied to, whatever they are; of the same shape, strides and dtype.
    """
    native, size, is_double = kernels(), values.numel(), values.dtype == torch.float64
    target = 0 if copy is None else copy.data_ptr()
    count, mean, m2, low, high = native.spread(values.data_ptr(), size, is_double, target, *team())  # type: ignore[union-attr]
    return (mean, math.sqrt(m2 / (size - 1)), low, high) if count else None
