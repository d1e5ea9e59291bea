"""Parts of tensors that stand for all of their elements, evenly spread, and hashes of their rows."""

from functools import lru_cache

import numpy as np
from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_in_transform

ELEMENTS = 1 << 16
"""Elements of a sample, at most about."""
ROWS = 256
"""Rows of a sample at least, if there are as many and each has few enough elements."""
WHOLE_LAYER = 1 << 22
"""Elements of a layer's output of which all are looked at for dead units."""
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_COMMON = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64})
_REAL = _COMMON | frozenset(
    {torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32}
)
_UNSIGNED = frozenset({torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64})
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SEED = 20261123
_MULTIPLIER = 0x3C79AC492BA7B653


def usable(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns what of a tensor lies here, without gradient; None where that has no plain real values, or none at all.

    Those are meta, sparse, nested, quantised and complex tensors, those of 8 bits or fewer with a point, of which torch
    computes next to nothing, freed memory, a DTensor with sums still to be formed, subclasses that keep their values
    elsewhere, and what stands for tensors inside ``torch.func``.
    """
    if is_in_transform(tensor):
        return None
    if type(tensor) in _PLAIN:
        values = tensor.detach()
        if values.dtype in _COMMON and values.is_cpu and values.layout is torch.strided and not values.is_nested:
            # Most by far; the rest takes as long again.
            return values if values.numel() and values.untyped_storage().nbytes() else None
    elif any(placement.is_partial() for placement in getattr(tensor, "placements", ())):
        return None
    else:
        values = local_part(tensor.detach())
    if values.is_meta or values.dtype not in _REAL or values.layout is not torch.strided:
        return None
    if values.is_nested or not values.numel() or is_freed(values):
        return None
    if type(values) is not torch.Tensor and type(values).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return None
    return values


def with_sign(tensor: torch.Tensor) -> torch.Tensor:
    """Returns truth values and unsigned integers as int64, and anything else as it is.

    Torch neither sorts nor compares all of them, and takes 156 of 8 bits for -100.
    """
    return tensor.long() if tensor.dtype in _UNSIGNED else tensor


def sampled_rows(tensor: torch.Tensor, elements: int = ELEMENTS, rows: int = ROWS) -> torch.Tensor:
    """Returns some rows, along the first dimension, and some elements of each: two dimensions, in the tensor's dtype.

    At most ``elements`` about. Where the tensor has more, there are ``rows`` rows of as many elements as that allows,
    or more rows where they are short. Both are taken with a constant stride; that of a row's elements is odd, so that
    not all of them are of one column of a picture.
    """
    values = tensor.reshape(1, 1) if tensor.ndim == 0 else tensor
    length = values.shape[0]
    width = max(1, values.numel() // length)
    kept = max(rows, elements // width)
    apart = -(-length // kept) if length > kept else 1
    taken = -(-length // apart)
    stride = -(-taken * width // elements) if taken * width > elements else 1
    stride += stride % 2 == 0
    if type(values) is torch.Tensor and values.is_contiguous():
        # One view in place of three: each takes as long as copying what it shows.
        return values.as_strided((taken, -(-width // stride)), (apart * width, stride))
    return values[::apart].reshape(taken, -1)[:, ::stride]


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Returns values in float32, and wide ones in float64."""
    wide = tensor.dtype in (torch.float64, torch.int64, torch.int32)
    return tensor.to(torch.float64 if wide else torch.float32)


def row_hashes(rows: torch.Tensor) -> torch.Tensor:
    """Returns an int64 for each row: equal rows have equal ones, others differ but by a chance of 1 in 2**63.

    Rows are equal where their bits are. The hash is the sum of products with fixed odd numbers, modulo 2**64, so that
    the order in which a device adds does not matter; no random generator is touched.

    Args:
        rows: Two dimensions, of any real dtype.
    """
    if rows.dtype in (torch.int64, torch.bool):
        bits = rows.to(torch.int64)
    else:
        bits = rows.contiguous().view(_BITS[rows.element_size()]).to(torch.int64)
    return _products(bits).sum(1)


def fingerprint(hashes: torch.Tensor) -> torch.Tensor:
    """Returns one number for hashes in their order: an integer below 2**52, as a 0-d float64 tensor."""
    mixed = _products(hashes).sum()
    return row_numbers(mixed)


def row_numbers(hashes: torch.Tensor) -> torch.Tensor:
    """Returns a number for each hash: integers below 2**52, float64."""
    return ((hashes >> 12) & ((1 << 52) - 1)).double()


def _products(bits: torch.Tensor) -> torch.Tensor:
    # Products alone keep zeros at the end of the numbers, which floats have many of.
    mixed = bits >> 29
    mixed ^= bits
    mixed *= _factors(bits.shape[-1], bits.device)
    return mixed


def _factors(count: int, device: torch.device) -> torch.Tensor:
    return _odd_numbers(1 << (count - 1).bit_length(), device)[:count]


@lru_cache(maxsize=64)
def _odd_numbers(count: int, device: torch.device) -> torch.Tensor:
    numbers = np.random.default_rng(_SEED).integers(-(2**63), 2**63 - 1, count, np.int64) | 1
    return torch.from_numpy(numbers * np.int64(_MULTIPLIER)).to(device)
