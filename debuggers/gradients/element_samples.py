"""A few elements of each parameter or gradient, which stand for all of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from tracker_adapters.values.tensors import plain_tensor

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch

SAMPLES = 64
_GOLDEN = 0.6180339887498949
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_HOST = torch.device("cpu")
_TAKEN = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def can_be_sampled(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements that can be read: dense ones of a float dtype, in memory that is there."""
    if tensor.is_meta or tensor.is_sparse or tensor.is_quantized or tensor.dtype not in _TAKEN:
        return False
    return tensor.layout is torch.strided and bool(tensor.numel())


def sample_elements(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns at most 64 elements of a tensor, of a DTensor those here, one dimension; None where there are none.

    They are always at the same places: multiples of the golden ratio modulo 1, times the number of elements, so that
    they fall on all rows and columns.
    """
    if type(tensor) in _PLAIN and tensor.is_cpu and tensor.dtype in _TAKEN and tensor.layout is torch.strided:
        # Most by far, and of each several are taken at a step: a third of the calls of the general way.
        elements = tensor.numel()
        if not elements or tensor.is_nested or not tensor.untyped_storage().nbytes():
            return None
        with_gradient = tensor.requires_grad and torch.is_grad_enabled()
        return torch.take(tensor.detach() if with_gradient else tensor, _places(elements, _HOST))
    if not can_be_sampled(tensor):
        return None
    is_plain = type(tensor) in _PLAIN and not tensor.is_nested
    values: torch.Tensor = tensor.detach() if is_plain else plain_tensor("parameter", tensor)
    elements = values.numel()
    if not elements or values.layout is not torch.strided or is_freed(values):
        return None
    return torch.take(values, _places(elements, values.device))


@lru_cache(maxsize=1024)
def _places(elements: int, device: torch.device) -> torch.Tensor:
    """Where the elements are, int64, ascending."""
    if elements <= SAMPLES:
        return torch.arange(elements, device=device)
    shares = np.sort(np.modf((np.arange(SAMPLES) + 0.5) * _GOLDEN)[0])
    return torch.from_numpy((shares * elements).astype(np.int64)).to(device)
