"""Compares the optimizer's parameters with the model's: what only one of them holds is watched or trained in vain."""

from __future__ import annotations

import warnings
import weakref
from typing import NamedTuple

from debuggers.torch_import import torch


class Strangers(NamedTuple):
    """Numbers of parameters (tensors) that only one side holds."""

    outside_optimizer: int
    outside_model: int


class OptimizerCheck:
    """Compares once for each optimizer and warns when the optimizer trains parameters that the model lacks.

    The other way round is common and no mistake: several optimizers for one model.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, Strangers] = weakref.WeakKeyDictionary()

    def compare(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Strangers:
        """Returns how many parameters only one side holds, as of the first call with this optimizer."""
        if optimizer in self._known:
            return self._known[optimizer]
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        trainable = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
        everything = {id(parameter) for parameter in model.parameters()}
        strangers = Strangers(len(trainable - held), len(held - everything))
        self._known[optimizer] = strangers
        if strangers.outside_model:
            warnings.warn(
                f"{strangers.outside_model} of the optimizer's {len(held)} parameters are not in "
                f"{type(model).__name__}: their gradients are neither checked nor clipped",
                stacklevel=3,
            )
        return strangers
