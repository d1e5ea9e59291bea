"""The norm of finite gradients where the sum for it leaves the range of their dtype, at either end."""

import math
from collections.abc import Sequence

from debuggers.torch_import import torch
from stability.gradients.measure import Gradients, Norms, wide_dtype
from stability.gradients.sharded import whole_norms

_LOST = 1e18
"""Powers below the smallest normal number may be lost. Of 1e10 elements they make up less than 1e-8 of a sum that is
this many times that number."""


def true_total(gradients: Gradients, norms: Norms, norm_type: float) -> float:
    """Returns the total norm of finite gradients: the measured one, or where its sum over- or underflowed the true one.

    The second way waits for the device.

    Args:
        gradients: All gradients of a model.
        norms: As they were measured.
        norm_type: The order of the norm.
    """
    if math.isfinite(norms.total) and norms.total >= _smallest_exact(gradients, norm_type):
        return norms.total
    return wide_norm(gradients, norm_type)


@torch.no_grad()
def wide_norm(gradients: Gradients, norm_type: float, indices: Sequence[int] | None = None) -> float:
    """Returns the total norm of finite gradients in float64, each scaled by its largest value so as not to overflow.

    Args:
        gradients: All gradients of a model.
        norm_type: The order of the norm.
        indices: Which of them; by default all.
    """
    chosen = range(len(gradients.tensors)) if indices is None else indices
    norms = [_wide_norm(gradients.tensors[index], norm_type) for index in chosen]
    groups = [gradients.groups[index] for index in chosen]
    whole = torch.stack([norm.cpu() for norm in whole_norms(norms, groups, norm_type)])
    largest = float(whole.max())
    return largest * float(torch.linalg.vector_norm(whole / largest, norm_type)) if largest else 0.0


def _wide_norm(tensor: torch.Tensor, norm_type: float) -> torch.Tensor:
    """0-d float64, on the tensor's device."""
    if not tensor.numel():
        return torch.zeros((), dtype=torch.float64, device=tensor.device)
    largest = tensor.abs().max().double()
    unit = torch.where(largest > 0.0, largest, 1.0)
    norm: torch.Tensor = torch.linalg.vector_norm(tensor.to(wide_dtype(tensor)) / unit, norm_type)
    return norm * largest


def _smallest_exact(gradients: Gradients, norm_type: float) -> float:
    """Total norms from here on are exact to the digits of the gradients' dtypes. torch sums narrow ones in float32."""
    if math.isinf(norm_type):
        return 0.0
    smallest = 0.0
    for dtype in {tensor.dtype for tensor in gradients.tensors}:
        summed = torch.finfo(torch.promote_types(dtype, torch.float32))
        smallest = max(smallest, (_LOST * summed.tiny) ** (1.0 / norm_type), torch.finfo(dtype).tiny)
    return smallest
