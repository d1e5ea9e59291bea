"""Norm clipping from norms that are already measured."""

from __future__ import annotations

import math

from debuggers.torch_import import torch
from stability.clipping_config import GradientClippingConfig
from stability.gradients import CLIP_EPSILON, Gradients, Norms, scale


def clip_to_norm(gradients: Gradients, norms: Norms, config: GradientClippingConfig) -> float:
    """Clips finite gradients in place, bit for bit as ``torch.nn.utils.clip_grad_norm_``.

    Gradients below the bound are not touched, where ``clip_grad_norm_`` multiplies them by 1.

    Returns:
        The factor applied.
    """
    if config.clipping_type == "none" or norms.coefficient == 1.0:
        return 1.0
    scale(gradients.tensors, norms.coefficient_tensor)
    return norms.coefficient


@torch.no_grad()
def clip_to_overflowed_norm(gradients: Gradients, total_norm: float, config: GradientClippingConfig) -> float:
    """Clips finite gradients whose norm is beyond the range of their dtype.

    ``clip_grad_norm_`` divides by infinity there and sets every gradient to zero. This scales them by
    ``max_norm / (total_norm + 1e-6)`` in float64 instead, one gradient at a time.

    Args:
        gradients: Finite gradients.
        total_norm: Their true norm, from ``wide_norm``.
        config: The bound.

    Returns:
        The factor applied.
    """
    coefficient = min(1.0, config.max_norm / (total_norm + CLIP_EPSILON))
    if config.clipping_type == "none" or coefficient == 1.0:
        return 1.0
    for tensor in gradients.tensors:
        tensor.copy_(_wide(tensor) * coefficient)
    return coefficient


@torch.no_grad()
def wide_norm(gradients: Gradients, norm_type: float) -> float:
    """Returns the total norm of finite gradients in float64, scaled by their largest value so as not to overflow."""
    largest = max(float(tensor.abs().max()) for tensor in gradients.tensors if tensor.numel())
    if largest == 0.0:
        return 0.0
    norms = [
        float(torch.linalg.vector_norm(_wide(tensor) / largest, norm_type))
        for tensor in gradients.tensors
        if tensor.numel()
    ]
    if math.isinf(norm_type):
        return largest * max(norms)
    return largest * float(torch.linalg.vector_norm(torch.tensor(norms, dtype=torch.float64), norm_type))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
