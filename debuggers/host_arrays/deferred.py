"""Copies tensors to the host: at once from the host, and from a device without waiting for it."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values import narrow_floats

from debuggers.host_arrays.block_memory import Empty
from debuggers.host_arrays.graph_capture import beside_captures, is_capturing, refuse_capture
from debuggers.host_arrays.readable import readable_tensor
from debuggers.torch_import import torch

if TYPE_CHECKING:
    from tracker_adapters.emitter import PendingArray

_NARROW_NAMES = {getattr(torch, name): name for name in narrow_floats.NAMES if hasattr(torch, name)}
_SAME_SIZE = {1: torch.uint8, 2: torch.int16}


class DeferredTensor:
    """A copy of a tensor as it was when this was made; ``nbytes`` is its size in bytes.

    From a CUDA device the copy is only enqueued, on the current stream: whatever is enqueued there later
    cannot change it, and nothing waits until ``resolve``.
    """

    __slots__ = ("_array", "_event", "nbytes", "shape")

    def __init__(self, tensor: torch.Tensor, empty: Empty = np.empty, *, unchanging: bool = False) -> None:
        """Copies a tensor.

        Args:
            tensor: What to copy.
            empty: Makes the array that a tensor on the host is copied to.
            unchanging: Nothing changes the tensor from now on: from a CUDA device it is copied beside what is enqueued
                on the current stream later, which need not wait for the copy.

        Raises:
            CapturedGraphError: On CUDA, while a graph is captured.
        """
        source = readable_tensor(tensor)
        self.nbytes = source.numel() * source.element_size()
        self.shape = tuple(source.shape)
        self._event: torch.cuda.Event | None = None
        if source.device.type == "cuda":
            refuse_capture()
            # Pinned memory is what makes the copy asynchronous; torch keeps and reuses it.
            host = torch.empty(self.shape, dtype=source.dtype, device="cpu", pin_memory=True)
            # A dtype that NumPy lacks fails here, not in the thread that resolves.
            self._array = _as_numpy(host)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            if unchanging:
                _copy_aside(source, host, self._event)
            else:
                host.copy_(source, non_blocking=True)
                self._event.record(torch.cuda.current_stream(source.device))
        else:
            self._array = empty(self.shape, _as_numpy(torch.empty(0, dtype=source.dtype, device="cpu")).dtype)
            content = torch.from_numpy(self._array.reshape(-1).view(np.uint8))
            content.view(source.dtype).view(self.shape).copy_(source)

    def ready(self) -> bool:
        """Whether the copy has arrived; False while a CUDA graph is captured, when that cannot be asked."""
        if self._event is None:
            return True
        return not is_capturing() and bool(self._event.query())  # type: ignore[no-untyped-call]

    def resolve(self) -> npt.NDArray[Any]:
        """Waits for the copy and returns it; bfloat16 and float8 come back with their ml_dtypes dtype."""
        if self._event is not None:
            with beside_captures():
                self._event.synchronize()
            self._event = None
        return self._array


def _copy_aside(source: torch.Tensor, host: torch.Tensor, done: torch.cuda.Event) -> None:
    """Copies on a stream of our own, after what is enqueued on the current stream now."""
    stream = _stream_of(source.device)
    stream.wait_stream(torch.cuda.current_stream(source.device))
    # Its memory is not given to others before the copy has been made.
    source.record_stream(stream)
    with torch.cuda.stream(stream):
        host.copy_(source, non_blocking=True)
        done.record(stream)


@cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _as_numpy(host: torch.Tensor) -> npt.NDArray[Any]:
    """A view of a host tensor."""
    name = _NARROW_NAMES.get(host.dtype)
    if name is not None and (narrow := narrow_floats.narrow_floats().get(name)) is not None:
        return host.view(_SAME_SIZE[host.element_size()]).numpy().view(narrow)
    try:
        return host.numpy()
    except TypeError as error:
        raise ArtifactError(f"tensor: got one of {host.dtype}, a dtype that NumPy and ml_dtypes lack") from error


class DeferredRow:
    """One row of a pending array along its first dimension."""

    __slots__ = ("_pending", "_row", "nbytes")

    def __init__(self, pending: "PendingArray", row: int, rows: int) -> None:
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
