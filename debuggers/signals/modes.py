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


def evaluates_as_in_training(model: torch.nn.Module) -> bool:
    """Whether a layer acts in a call without gradients that is to act in training alone.

    Not where a batch norm's momentum is None: it averages over all batches since its reset, as ``update_bn`` does that
    computes the statistics anew.
    """
    acts = [module for module in model.modules() if acts_in_training(module)]
    return bool(acts) and not any(isinstance(one, BatchNorm) and one.momentum is None for one in acts)


def is_in_training_mode(model: torch.nn.Module) -> bool:
    """Whether a model is in training mode, or all of its children are though it is not.

    ``model.training = False`` does not reach them, as ``model.eval()`` does. Where only some of them are, as dropouts
    that are to be sampled from, that is on purpose.
    """
    children = list(model.children())
    return model.training or (bool(children) and all(child.training for child in children))
