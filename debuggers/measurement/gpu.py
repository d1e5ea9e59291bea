"""Says which dtypes the kernels measure on a device: those of which they once measured some numbers rightly."""

import logging
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.host_arrays.graph_capture import refuse_capture
from debuggers.measurement import torch_operations
from debuggers.measurement.device_rows import read
from debuggers.measurement.kernels.gpu.loading import load
from debuggers.measurement.kernels.gpu.segments import DTYPES, Segment
from debuggers.measurement.plain_values import address
from debuggers.torch_import import torch

_DIFFERENCE = 1e-5  # of moments: those of torch operations are summed in float64
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_why_not: dict[tuple[torch.device, torch.dtype], str] = {}


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Makes a CUDA device the current one, on which kernels are started."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def is_readable(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel measures this dtype on this device; says once why it measures nothing there.

    The first question about a dtype compiles the kernel, which takes about half a second, and waits for the device
    once, to compare what it computed of some numbers with what torch computes of them on the host.
    """
    return device.type == "cuda" and dtype in DTYPES and not why_not(device, dtype)


def why_not(device: torch.device, dtype: torch.dtype = torch.float32) -> str:
    """Returns why the kernel does not measure this dtype on this CUDA device; empty where it does.

    Raises:
        CapturedGraphError: While a graph is captured and this is not known yet.
    """
    key = device, dtype
    if key not in _why_not:
        if device.type == "cuda":
            refuse_capture()
        with _lock:
            if key not in _why_not:
                _why_not[key] = _try(device, dtype)
                if _why_not[key]:
                    _log.warning("measures %s on %s with torch operations: %s", dtype, device, _why_not[key])
    return _why_not[key]


def give_up(device: torch.device, dtypes: Iterable[torch.dtype], error: Exception) -> None:
    """Has dtypes measured with torch operations on a device whose kernel failed after it was tried, and says so.

    A kernel is compiled for each kind of segment when it is first needed. One that cannot be would be compiled again at
    each step, and its tensors would never be measured.
    """
    with _lock:
        for dtype in dtypes:
            why = f"the kernel failed ({type(error).__name__}: {error})"
            if not _why_not.get((device, dtype)):
                _log.warning("measures %s on %s with torch operations from now on: %s", dtype, device, why)
            _why_not[device, dtype] = why


def _try(device: torch.device, dtype: torch.dtype) -> str:
    launch, why = load()
    if launch is None:
        return why
    values = _numbers(dtype)
    try:
        with on(device):
            on_device = (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)
            rows = launch([Segment(address("numbers", on_device), 0, values.numel(), dtype)], device)
            table = read(DeferredTensor(rows).resolve())
    except Exception as error:  # no compiler, a device that is too old, or whatever else the driver finds
        return f"the kernel does not run ({type(error).__name__}: {error})"
    wide = values if dtype is torch.float64 else values.float()
    expected = read(torch_operations.measure([wide]).numpy())
    ours, theirs = table.columns, expected.columns
    exact = all(
        np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in ("tallies", "ends", "bins", "counts")
    )
    if exact and np.allclose(ours.moments, theirs.moments, rtol=_DIFFERENCE, atol=0):
        return ""
    return "the kernel computed other statistics than torch; please report this with the versions of torch and CUDA"


def _numbers(dtype: torch.dtype) -> torch.Tensor:
    """A few blocks of numbers of all magnitudes, and of all kinds."""
    ramp = torch.arange(-4000.0, 6001.0, dtype=torch.float64, device="cpu")
    limits = torch.finfo(dtype)
    kinds = [0.0, -0.0, torch.nan, torch.inf, -torch.inf, limits.tiny, -limits.smallest_normal / 2, 3.0, -65504.0]
    return torch.cat([ramp * 1.37e-3, torch.tensor(kinds, dtype=torch.float64, device="cpu")]).to(dtype)
