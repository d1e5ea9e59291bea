"""Operations on many tensors at once, one launch a device where its kernels can (torch 2.7 to 2.15).

``torch.optim`` is built on them. The documentation lists them by these names, and calls them a beta.
"""

from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype, _has_foreach_support

from debuggers.torch_import import torch

__all__ = ["copy_", "group_by_device_and_dtype", "is_supported", "mul", "mul_", "neg_", "norm", "sub_"]

norm = torch._foreach_norm
"""Takes tensors, an order (2 by default) and a dtype of the results; returns a list of 0-d tensors."""
mul = torch._foreach_mul
"""Takes tensors and one factor, or one a tensor; returns a list of new tensors."""
mul_ = torch._foreach_mul_
"""The same in place."""
sub_ = torch._foreach_sub_
"""Subtracts a list of tensors from one in place."""
neg_ = torch._foreach_neg_
"""Negates in place."""
copy_ = torch._foreach_copy_
"""Copies a list of tensors (second) into another (first)."""
is_supported = _has_foreach_support
"""Takes tensors and their device; whether ``torch.nn.utils.clip_grad_norm_`` uses these operations for them."""
group_by_device_and_dtype = _group_tensors_by_device_and_dtype
"""Takes lists of tensors, and ``with_indices=True``; returns a dict by (device, dtype) of (lists, indices).

The order of its groups is the one in which ``clip_grad_norm_`` sums, and decides the last bits of a total norm.
"""
