"""What is done when a step runs out of memory."""

import gc
from pathlib import Path

from debuggers.torch_import import torch
from stability.debugging.cuda import save_cuda_snapshot

_HOST_MESSAGE = "DefaultCPUAllocator"
"""torch raises a plain RuntimeError with this name in it where the host's memory is exhausted."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on a device or on the host."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and _HOST_MESSAGE in str(error)


def relieve(model: torch.nn.Module, error: BaseException, snapshot_folder: Path | None) -> str:
    """Gives memory back: gradients, what an exception's frames hold on to, garbage and CUDA's cache.

    Args:
        model: Its gradients become None; they are of a step that did not end.
        error: The frames of its traceback hold the tensors of the forward pass.
        snapshot_folder: Where a snapshot of the CUDA allocator is written, if this process uses CUDA; None for none.

    Returns:
        What was done, as a sentence without a full stop.
    """
    done = "gradients, frames and caches are dropped"
    if snapshot_folder is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            done += f", the allocator is in {save_cuda_snapshot(snapshot_folder, 'out_of_memory', most_files=5)}"
        except OSError as failure:
            done += f", no snapshot of the allocator: {failure}"
    for parameter in model.parameters():
        parameter.grad = None
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__context__
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    return done
