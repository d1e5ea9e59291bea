"""The functions that compute torch's own losses (torch 2.7 to 2.15).

``torch.nn.functional`` looks each of them up at each call, so that another one can take its place. TorchScript knows
them by their identity: what takes a place is made known to it as the same operator.
"""

from collections.abc import Callable
from typing import Any, Final

from debuggers.torch_import import torch

_find_operator: Callable[[Any], Any] = torch.jit._builtins._find_builtin
_register_operator: Callable[[Any, str], Any] = torch.jit._builtins._register_builtin
LossEntry = Callable[..., Any]
"""Takes outputs and targets, and what else the loss has; see ``REDUCTION_AT``."""
_PLACES: Final = {
    "cross_entropy": (torch._C._nn, "cross_entropy_loss"),
    "nll": (torch._C._nn, "nll_loss_nd"),
    "mse": (torch._C._nn, "mse_loss"),
    "l1": (torch._C._nn, "l1_loss"),
    "smooth_l1": (torch._C._nn, "smooth_l1_loss"),
    "huber": (torch._C._nn, "huber_loss"),
    "bce": (torch._C._nn, "binary_cross_entropy"),
    "bce_with_logits": (torch, "binary_cross_entropy_with_logits"),
}
KINDS: Final = tuple(_PLACES)
"""The kinds of losses, named as in ``LossFacts``."""
REDUCTION_AT: Final = {
    "cross_entropy": 3, "nll": 3, "mse": 2, "l1": 2, "smooth_l1": 2, "huber": 2, "bce": 3, "bce_with_logits": 4,
}  # fmt: skip
"""Where among the arguments the reduction is: 0 for none, 1 for a mean, 2 for a sum."""

_registered: list[LossEntry] = []
"""TorchScript knows them by their address, which must never be another function's."""


def current_loss_entry(kind: str) -> LossEntry:
    """Returns the function that computes a kind of loss now."""
    owner, name = _PLACES[kind]
    entry: LossEntry = getattr(owner, name)
    return entry


def replace_loss_entry(kind: str, entry: LossEntry) -> None:
    """Has another function called from now on, which TorchScript takes for what it replaces."""
    stand_for(current_loss_entry(kind), entry)
    owner, name = _PLACES[kind]
    setattr(owner, name, entry)


def stand_for(replaced: Callable[..., Any], entry: Callable[..., Any]) -> None:
    """Has TorchScript take a function of Python for the operator that another function stands for."""
    operator = _find_operator(replaced)
    if operator is not None and _find_operator(entry) is None:
        _register_operator(entry, operator)
        _registered.append(entry)
