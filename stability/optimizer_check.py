"""Checks that model and optimizer belong together: what only one of them holds is watched or trained in vain."""

from __future__ import annotations

import warnings
import weakref
from typing import NamedTuple

from debuggers.torch_import import torch
from stability.errors import StabilityError


class Strangers(NamedTuple):
    """Numbers of parameters (tensors) that only one side holds."""

    outside_optimizer: int
    outside_model: int


def check_kinds(model: object, optimizer: object) -> None:
    """Raises StabilityError unless these are a model and an optimizer, or what behaves like one."""
    if not isinstance(model, torch.nn.Module):
        raise StabilityError(f"the model is of type {type(model).__name__}; expected a torch.nn.Module")
    if not hasattr(optimizer, "param_groups"):
        raise StabilityError(f"the optimizer is of type {type(optimizer).__name__}; expected a torch.optim.Optimizer")


class OptimizerCheck:
    """Compares once for each optimizer and warns when the optimizer trains parameters that the model lacks.

    The other way round is common and no mistake: several optimizers for one model. But with a GradScaler the gradients
    of the others are still scaled, unless the loop has unscaled them; of that it warns too.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, Strangers] = weakref.WeakKeyDictionary()

    def compare(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None
    ) -> Strangers:
        """Returns how many parameters only one side holds, as of the first call with this optimizer.

        Call it when the scaler, if one is at work, has unscaled this optimizer's gradients.
        """
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
        scaled = sum(p.grad is not None and id(p) not in held for p in model.parameters())
        if scaled and scaler is not None and _unscaled_once(scaler):
            warnings.warn(
                f"{scaled} gradients of {type(model).__name__} belong to no parameter of the optimizer, so they are "
                "still multiplied by the loss scale, and count in the norm; expected scaler.unscale_(optimizer) with "
                "each optimizer before, or the part of the model that this one trains",
                stacklevel=3,
            )
        return strangers


def _unscaled_once(scaler: torch.amp.GradScaler) -> bool:
    """Whether no more than one optimizer was unscaled since the last update, as far as the scaler tells."""
    states = getattr(scaler, "_per_optimizer_states", {})
    return len([None for state in states.values() if state["stage"].name != "READY"]) <= 1
