"""Keeps the random number generators as they are around code that may draw from them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from debuggers.torch_import import torch


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restores the global generators of torch (host and current CUDA device), Python and NumPy at the end."""
    python_state, numpy_state, host_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    device_state = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(host_state)
        if device_state is not None:
            torch.cuda.set_rng_state(device_state)
