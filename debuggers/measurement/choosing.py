"""Chooses how each tensor is measured: by a kernel that reads its memory as it is, or as pieces made of it."""

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat, takewhile
from typing import Any, TypeGuard

from tracker_adapters.values.tensors import is_sharded

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.host_arrays.graph_capture import refuse_capture
from debuggers.measurement.batches import DeviceBatch, HostBatch, KernelBatch
from debuggers.measurement.gpu import is_readable
from debuggers.measurement.kernels.availability import is_usable
from debuggers.measurement.kernels.gpu.loading import load
from debuggers.measurement.kernels.gpu.segments import DTYPES
from debuggers.measurement.plain_values import (
    MAX_LENGTH,
    WIDE,
    address,
    addresses,
    difference_pieces,
    pieces,
    plain_values,
)
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})
_PLAIN_ON_HOST = frozenset((dtype, torch.strided, True) for dtype in WIDE)
_HALVES = frozenset({torch.float16, torch.bfloat16})


class Batches:
    """Where tensors wait to be measured: on the host, and on each device with its kernel or with torch operations."""

    def __init__(self) -> None:
        self.host = HostBatch() if is_usable() else None
        self._devices: dict[torch.device, DeviceBatch | KernelBatch] = {}
        self._readers: dict[tuple[torch.device, torch.dtype], KernelBatch | None] = {}

    def add_first(self, tensors: Sequence[Any]) -> int:
        """Adds the tensors at the beginning that are of an ordinary type, if all of them lie plain in host memory.

        For many tensors it takes a fraction of the time of ``reading``. Call it before anything else is added.

        Returns:
            How many were added, which may be none.
        """
        if self.host is None:
            return 0
        if set(map(type, tensors)) <= _ORDINARY:
            first = list(tensors)
        else:
            first = list(takewhile(lambda one: type(one) in _ORDINARY, tensors))
        if not {(one.dtype, one.layout, one.is_cpu) for one in first} <= _PLAIN_ON_HOST:
            return 0
        is_laid_out = all(map(torch.Tensor.is_contiguous, first)) or all(map(is_dense, first))
        if not is_laid_out or any(map(torch.Tensor.is_neg, first)):
            return 0
        lengths, starts = list(map(torch.Tensor.numel, first)), addresses(first)
        if not starts or max(lengths) >= MAX_LENGTH:
            return 0
        doubles = [one.dtype is torch.float64 for one in first]
        segments = chain.from_iterable(zip(range(len(first)), starts, lengths, doubles, repeat(0)))
        self.host.add_first(first, list(segments))
        return len(first)

    def reading(self, tensor: Any) -> HostBatch | KernelBatch | None:
        """Returns the batch whose kernel reads the tensor's memory as it is; None if there is none."""
        if self.host is not None and self.host.holds(tensor):
            return self.host
        if not is_plain(tensor):
            return None
        if tensor.is_cpu:
            return self.host
        key = tensor.device, tensor.dtype
        if key not in self._readers:
            batch = self._device(tensor.device) if is_readable(*key) else None
            self._readers[key] = batch if isinstance(batch, KernelBatch) else None
        return self._readers[key]

    def add_product(self, index: int, what: int | str, tensor: torch.Tensor, factor: torch.Tensor) -> bool:
        """Adds a tensor times a factor; returns whether it is a local shard."""
        batch = self.reading(tensor)
        if isinstance(batch, KernelBatch):
            batch.add(index, what, tensor, factor=factor)
            return False
        return self.add_converted(index, what, widened(tensor.detach()) * factor, None)

    def add_converted(self, index: int, what: int | str, after: torch.Tensor, before: torch.Tensor | None) -> bool:
        """Adds a tensor as pieces that can be read; returns whether it is a local shard."""
        if before is None:
            flat, local_shard = plain_values(what, after)
            address(what, flat)  # reading freed memory to convert it would end the process
            parts = pieces(what, flat, partial(self._is_readable, flat.device))
        else:
            parts, local_shard = difference_pieces(what, after, before), is_sharded(after)
        for piece in parts:
            if self.host and piece.is_cpu:
                self.host.add_piece(index, what, piece)
                continue
            batch = self._device(piece.device)
            if isinstance(batch, KernelBatch):
                shares = before is None and piece.dtype == after.dtype and _shares_memory(after)
                batch.add_piece(index, what, piece, is_copy=not shares)
            else:
                batch.add(index, piece)
        return local_shard

    def take(self) -> tuple[list[tuple[list[int], SummaryTable]], list[tuple[list[int], DeferredTensor]]]:
        """Measures what waits; returns the parts of the host and of the devices."""
        return self.host.take() if self.host else [], [batch.take() for batch in self._devices.values()]

    def _is_readable(self, device: torch.device, dtype: torch.dtype) -> bool:
        return dtype in WIDE or is_readable(device, dtype)

    def _device(self, device: torch.device) -> DeviceBatch | KernelBatch:
        if device not in self._devices:
            if device.type == "cuda":
                refuse_capture()
            # What a kernel reads on a device are all dtypes that it has, or float32 and float64 at least.
            launch = load()[0] if all(is_readable(device, dtype) for dtype in WIDE) else None
            self._devices[device] = DeviceBatch(device) if launch is None else KernelBatch(device, launch)
        return self._devices[device]


def is_read_on_device(tensor: torch.Tensor) -> bool:
    """Whether the kernel of the tensor's device reads its memory as it is."""
    return is_plain(tensor) and is_readable(tensor.device, tensor.dtype)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Halves as float32, where their product with a factor neither underflows nor overflows; others as they are."""
    return tensor.float() if tensor.dtype in _HALVES else tensor


def is_plain(tensor: Any) -> TypeGuard[torch.Tensor]:
    """Whether a kernel may read the memory as it is; a fraction of a microsecond for each of many tensors."""
    return (
        type(tensor) in _ORDINARY
        and (tensor.dtype in WIDE or (tensor.dtype in DTYPES and tensor.is_cuda))
        and tensor.layout is torch.strided
        and (tensor.is_contiguous() or is_dense(tensor))
        and not tensor.is_neg()
        and tensor.numel() < MAX_LENGTH
    )


def lie_alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two dense tensors have the same elements at the same places of their memory."""
    return first.dtype == second.dtype and first.shape == second.shape and first.stride() == second.stride()


def _shares_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor's plain values lie in its own memory."""
    return tensor.layout is torch.strided and is_dense(tensor) and not tensor.is_neg()


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps, in any order of the dimensions, such as transposed."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
