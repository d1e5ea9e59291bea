"""The history of the CUDA allocator (torch 2.7 to 2.15).

torch's page "Understanding CUDA Memory Usage" describes it, by these names.
"""

from collections.abc import Callable
from typing import Any

from debuggers.torch_import import torch

record_history: Callable[..., None] = torch.cuda.memory._record_memory_history
"""Begins to record with ``max_entries=n``, ends it with ``enabled=None``."""
dump_snapshot: Callable[[str], Any] = torch.cuda.memory._dump_snapshot
"""Writes what is recorded to a file that https://pytorch.org/memory_viz shows."""


def is_recording() -> bool:
    """Whether a recording is active; call it only where CUDA is there: other builds of torch do not have it."""
    return bool(torch._C._cuda_isHistoryEnabled())
