"""Loads the kernels where CUDA's compiler is there; nothing else imports what needs it."""

import os
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from debuggers.measurement.kernels.gpu import compiling
from debuggers.measurement.kernels.gpu.launching import Kernels
from debuggers.measurement.kernels.gpu.nvrtc import CompilationError, library
from debuggers.measurement.kernels.gpu.segments import Segment
from debuggers.torch_import import torch

VARIABLE = "STEPSCOPE_GPU_KERNEL"
"""``off`` leaves the kernels alone."""


class Launch(Protocol):
    """``Kernels.measure``."""

    def __call__(self, segments: Sequence[Segment], device: torch.device, /) -> torch.Tensor:
        """Returns a row for each segment."""


@cache
def load() -> tuple[Launch | None, str]:
    """Returns what starts the kernels, or why they cannot be compiled."""
    if os.environ.get(VARIABLE, "") == "off":
        return None, f"{VARIABLE}=off"
    try:
        library()
    except CompilationError as error:
        return None, str(error)
    return Kernels(compiling.compile_kernel).measure, ""
