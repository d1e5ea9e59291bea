"""Which layers act otherwise in training than in evaluation."""

from debuggers.torch_import import torch
from debuggers.torch_internals.modules import BatchNorm, Dropout


def acts_in_training(module: torch.nn.Module) -> bool:
    """Whether a dropout drops, or a batch norm normalises by the batch though it keeps running statistics."""
    if not module.training:
        return False
    if isinstance(module, Dropout):
        return bool(module.p)
    return isinstance(module, BatchNorm) and bool(module.track_running_stats)
