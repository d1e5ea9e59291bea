"""A few elements of each parameter or gradient, which stand for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.tensors import plain_tensor

from debuggers.host_arrays.readable import is_freed
from debuggers.measurement.kernels.samples import gather, is_usable
from debuggers.measurement.plain_values import addresses
from debuggers.torch_import import torch

SAMPLES = 64
_GOLDEN = 0.6180339887498949
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_HOST = torch.device("cpu")
_ORDINARY = frozenset(_PLAIN)
_READ = frozenset((dtype, torch.strided, True) for dtype in (torch.float32, torch.float64))
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


def sample_all(tensors: Sequence[torch.Tensor]) -> npt.NDArray[np.float64] | None:
    """Returns what ``sample_elements`` does of each, one after the other as float64, in one call of the compiled code.

    None where that cannot read all of them as they are: only plain contiguous float32 or float64 on the host.
    """
    if not is_usable() or not set(map(type, tensors)) <= _ORDINARY:
        return None
    if not {(one.dtype, one.layout, one.is_cpu) for one in tensors} <= _READ:
        return None
    if not all(map(torch.Tensor.is_contiguous, tensors)) or any(map(torch.Tensor.is_neg, tensors)):
        return None
    starts, lengths = addresses(tensors), list(map(torch.Tensor.numel, tensors))
    if not starts or not all(lengths):
        return None
    return gather(starts, lengths, [one.dtype is torch.float64 for one in tensors], _shares())


@lru_cache(maxsize=1)
def _shares() -> npt.NDArray[np.float64]:
    return np.sort(np.modf((np.arange(SAMPLES) + 0.5) * _GOLDEN)[0])


@lru_cache(maxsize=1024)
def _places(elements: int, device: torch.device) -> torch.Tensor:
    """Where the elements are, int64, ascending."""
    if elements <= SAMPLES:
        return torch.arange(elements, device=device)
    return torch.from_numpy((_shares() * elements).astype(np.int64)).to(device)
