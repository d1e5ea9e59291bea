"""Loads the kernels where Triton is there; nothing else imports what needs it."""

import os
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from debuggers.measurement.kernels.gpu.segments import Segment
from debuggers.torch_import import torch

VARIABLE = "STEPSCOPE_TRITON"
"""``off`` leaves the kernels alone."""


class Launch(Protocol):
    """``launching.measure_segments``."""

    def __call__(self, segments: Sequence[Segment], device: torch.device, /) -> torch.Tensor:
        """Returns a row for each segment."""


@cache
def load() -> tuple[Launch | None, str]:
    """Returns what starts the kernels, or why they cannot be loaded."""
    if os.environ.get(VARIABLE, "") == "off":
        return None, f"{VARIABLE}=off"
    try:
        from debuggers.measurement.kernels.gpu.launching import measure_segments
    except ImportError as error:
        return None, f"Triton cannot be imported ({error}); torch's packages for CUDA install it"
    except Exception as error:  # of a package that is broken, whatever it raises
        return None, f"Triton cannot be used ({type(error).__name__}: {error})"
    return measure_segments, ""
