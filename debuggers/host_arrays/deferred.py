"""Copies tensors to the host: at once from the host, and from a device without waiting for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import PendingArray
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.arrays import check_readable

from debuggers.host_arrays.block_memory import Empty
from debuggers.host_arrays.narrow_floats import NARROW_FLOATS
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_in_transform

_NARROW_DTYPES = {getattr(torch, name): dtype for name, dtype in NARROW_FLOATS.items() if hasattr(torch, name)}
_SAME_SIZE = {1: torch.uint8, 2: torch.int16}


class DeferredTensor:
    """A copy of a tensor as it was when this was made; ``nbytes`` is its size in bytes.

    From a CUDA device the copy is only enqueued, on the current stream: whatever is enqueued there later
    cannot change it, and nothing waits until ``resolve``.
    """

    __slots__ = ("_array", "_event", "nbytes", "shape")

    def __init__(self, tensor: torch.Tensor, empty: Empty = np.empty) -> None:
        """Copies a tensor; ``empty`` makes the array that a tensor on the host is copied to."""
        source = readable_tensor(tensor)
        self.nbytes = source.numel() * source.element_size()
        self.shape = tuple(source.shape)
        self._event: torch.cuda.Event | None = None
        if source.device.type == "cuda":
            # Pinned memory is what makes the copy asynchronous; torch keeps and reuses it.
            host = torch.empty(self.shape, dtype=source.dtype, device="cpu", pin_memory=True)
            # A dtype that NumPy lacks fails here, not in the thread that resolves.
            self._array = _as_numpy(host)
            host.copy_(source, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(source.device))
        else:
            self._array = empty(self.shape, _as_numpy(torch.empty(0, dtype=source.dtype, device="cpu")).dtype)
            content = torch.from_numpy(self._array.reshape(-1).view(np.uint8))
            content.view(source.dtype).view(self.shape).copy_(source)

    def ready(self) -> bool:
        """Whether the copy has arrived."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def resolve(self) -> npt.NDArray[Any]:
        """Waits for the copy and returns it; bfloat16 and float8 come back with their ml_dtypes dtype."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._array


def _as_numpy(host: torch.Tensor) -> npt.NDArray[Any]:
    """A view of a host tensor."""
    narrow = _NARROW_DTYPES.get(host.dtype)
    if narrow is not None:
        return host.view(_SAME_SIZE[host.element_size()]).numpy().view(narrow)
    try:
        return host.numpy()
    except TypeError as error:
        raise ArtifactError(f"tensor: got one of {host.dtype}, a dtype that NumPy and ml_dtypes lack") from error


class DeferredRow:
    """One row of a pending array along its first dimension."""

    __slots__ = ("_pending", "_row", "nbytes")

    def __init__(self, pending: PendingArray, row: int, rows: int) -> None:
        self._pending = pending
        self._row = row
        self.nbytes = pending.nbytes // rows

    def resolve(self) -> npt.NDArray[Any]:
        """Waits for the copy and returns the row."""
        return self._pending.resolve()[self._row, ...]


def defer_tensor(tensor: torch.Tensor) -> DeferredTensor:
    """Copies a tensor without synchronising with its device; any real or complex dense tensor will do.

    Raises:
        ArtifactError: For meta, sparse and nested tensors and others that ``readable_tensor`` refuses, and for dtypes
            that NumPy and ml_dtypes lack.
    """
    return DeferredTensor(tensor)


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values as a dense tensor without gradient: the local shard of a DTensor, dequantised.

    It may share memory with ``tensor``.

    Raises:
        ArtifactError: For meta, sparse and nested tensors.
    """
    values = tensor.detach()
    if hasattr(values, "to_local"):
        values = values.to_local()
    if values.is_complex() and not values.is_meta and values.layout == torch.strided:
        return values.resolve_conj().resolve_neg()
    check_readable("tensor", values)
    if values.is_quantized:
        values = values.dequantize()
    return values.resolve_neg()


def readable_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values as ``plain_tensor`` does, if they can be read.

    Raises:
        ArtifactError: For meta, sparse and nested tensors; for subclasses that keep their values out of reach, such as
            FakeTensor; inside ``torch.vmap`` and ``torch.func.grad``; for a DTensor with sums still to be formed, of
            which each rank holds a summand; and where the memory was freed, as FSDP does with parameters.
    """
    if is_in_transform(tensor):
        raise ArtifactError("tensor: got one inside a torch.func transformation; expected a tensor outside of it")
    if _is_partial(tensor):
        raise ArtifactError("tensor: got a DTensor with sums still to be formed; expected tensor.full_tensor()")
    values = plain_tensor(tensor)
    if type(values).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise ArtifactError(
            f"tensor: got a {type(values).__name__}, whose values cannot be read; expected a torch.Tensor"
        )
    if is_freed(values):
        raise ArtifactError(f"tensor: the memory of one of shape {tuple(values.shape)} was freed; expected values")
    return values


def may_be_cloned(tensor: torch.Tensor) -> bool:
    """Whether a copy can be made on the spot.

    Of a freed storage it would end the process, and of a DTensor with sums still to be formed it would wait for the
    other ranks.
    """
    return not is_freed(tensor) and not _is_partial(tensor)


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory was freed, as FSDP and offloading do with parameters: reading it ends the process."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return False
    try:
        return not tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # made of other tensors, or inside a transformation
        return False


def _is_partial(tensor: torch.Tensor) -> bool:
    return any(placement.is_partial() for placement in getattr(tensor, "placements", ()))
