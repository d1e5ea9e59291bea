"""Checks that model and optimizer belong together: what only one of them holds is watched or trained in vain."""

import warnings
import weakref
from collections.abc import Sequence
from operator import is_
from typing import NamedTuple

from debuggers.first_nan.source_lines import user_stack_level
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import is_unscaled, optimizer_states
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


class _Compared(NamedTuple):
    """What was compared and what came out. It keeps the parameters alive, so that no other can have their address."""

    held: list[torch.Tensor]
    parameters: list[torch.Tensor]
    trainable: list[bool]
    strangers: Strangers


class OptimizerCheck:
    """Compares when either side has changed, and warns when the optimizer trains parameters that the model lacks.

    The other way round is common and no mistake: several optimizers for one model. But with a GradScaler the gradients
    of the others are still scaled, unless the loop has unscaled them; of that it warns too.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Compared] = weakref.WeakKeyDictionary()

    def compare(
        self,
        model: torch.nn.Module,
        parameters: Sequence[torch.Tensor],
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler | None = None,
    ) -> Strangers:
        """Returns how many parameters only one side holds.

        A layer that was exchanged, a group that was added, and a parameter that was frozen show at the next call.

        Args:
            model: The model.
            parameters: All its parameters.
            optimizer: The optimizer.
            scaler: The scaler at work, if there is one; it has unscaled this optimizer's gradients.
        """
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        trainable = [parameter.requires_grad for parameter in parameters]
        known = self._known.get(optimizer)
        if known is not None and _same(known.held, held) and _same(known.parameters, parameters):
            if known.trainable == trainable:
                return known.strangers
        else:
            _warn_of_scaled(model, parameters, held, scaler)
        ids = {id(parameter) for parameter in held}
        outside_optimizer = sum(
            trained and id(parameter) not in ids for parameter, trained in zip(parameters, trainable, strict=True)
        )
        strangers = Strangers(outside_optimizer, len(ids - set(map(id, parameters))))
        if strangers.outside_model and (known is None or known.strangers.outside_model != strangers.outside_model):
            warnings.warn(
                f"{strangers.outside_model} of the optimizer's {len(ids)} parameters are not in "
                f"{type(model).__name__}: their gradients are neither checked nor clipped",
                stacklevel=user_stack_level(),
            )
        self._known[optimizer] = _Compared(held, list(parameters), trainable, strangers)
        return strangers


def _same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))


def _warn_of_scaled(
    model: torch.nn.Module,
    parameters: Sequence[torch.Tensor],
    held: Sequence[torch.Tensor],
    scaler: torch.amp.GradScaler | None,
) -> None:
    ids = set(map(id, held))
    scaled = sum(parameter.grad is not None and id(parameter) not in ids for parameter in parameters)
    if scaled and scaler is not None and _unscaled_once(scaler):
        warnings.warn(
            f"{scaled} gradients of {type(model).__name__} belong to no parameter of the optimizer, so they are "
            "still multiplied by the loss scale, and count in the norm; expected scaler.unscale_(optimizer) with "
            "each optimizer before, or the part of the model that this one trains",
            stacklevel=user_stack_level(),
        )


def _unscaled_once(scaler: torch.amp.GradScaler) -> bool:
    """Whether no more than one optimizer was unscaled since the last update, as far as the scaler tells."""
    return sum(map(is_unscaled, optimizer_states(scaler).values())) <= 1
