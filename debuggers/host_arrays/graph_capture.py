"""Keeps measuring out of CUDA graphs: what is enqueued while one is captured runs at each replay, and not now."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from debuggers.errors import CapturedGraphError
from debuggers.torch_import import torch

_OF_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured on this thread's current stream; takes a microsecond."""
    # A build for the CPU alone raises an error when it is asked the second question.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


def refuse_capture() -> None:
    """Raises an error while a CUDA graph is captured.

    Raises:
        CapturedGraphError: It says what to do.
    """
    if is_capturing():
        raise CapturedGraphError(
            "a CUDA graph is being captured: what runs inside of it is not measured, now or at its replays; expected "
            "to be called outside of torch.cuda.graph, where the gradients and weights that a replay leaves can be "
            "measured"
        )


@contextmanager
def beside_captures() -> Iterator[None]:
    """Within the block this thread may wait for a device while another one captures a CUDA graph.

    ``torch.cuda.graph`` captures in a mode in which CUDA refuses that to all threads, and ends the capture with an
    error.
    """
    exchange = _exchange_capture_mode()
    if exchange is None:
        yield
        return
    mode = ctypes.c_int(_OF_THIS_THREAD)
    exchange(ctypes.byref(mode))  # of this thread alone; the mode that it had is put in its place
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


@cache
def _exchange_capture_mode() -> Callable[[Any], Any] | None:
    """The function of CUDA's driver; None where there is none, as on AMD's devices."""
    try:
        return getattr(ctypes.CDLL("libcuda.so.1"), "cuThreadExchangeStreamCaptureMode", None)
    except OSError:
        return None
