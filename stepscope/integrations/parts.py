"""What each optimizer of a training trains."""

from collections.abc import Sequence
from dataclasses import dataclass

from debuggers.torch_import import torch

_HOLDERS = (torch.nn.ModuleDict, torch.nn.ModuleList)
"""Modules that are never called."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A module, and the optimizer that trains it.

    Attributes:
        scope: What stands before the names of its series: empty for the only one.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scope: str = ""


def parts_of(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], *, is_called: bool) -> list[Part]:
    """Returns the part of a model that each optimizer trains.

    With several optimizers it is the smallest module that holds all parameters of one, as the generator of a GAN, and
    the part's scope is the module's name; ``optimizer_<index>`` where two would be the same. With one optimizer it is
    the model.

    Args:
        model: The whole model.
        optimizers: Torch's optimizers, or wrappers that have one in ``optimizer``.
        is_called: Whether the model itself is called at each step. If not, and its only child with parameters holds
            all of them, the child takes its place, because inputs and outputs are seen where a module is called.
    """
    inner = [torch_optimizer(one) for one in optimizers]
    if len(inner) == 1:
        return [Part(model if is_called else _called(model), inner[0])]
    places = [_place(model, one) for one in inner]
    names = [name for name, _ in places]
    unique = "" not in names and len(set(names)) == len(names)
    return [
        Part(
            _called(module) if module is model and not is_called else module,
            one,
            name if unique else f"optimizer_{index}",
        )
        for index, (one, (name, module)) in enumerate(zip(inner, places, strict=True))
    ]


def torch_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns the optimizer inside of wrappers, which is the one whose ``step`` changes the weights."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


def _called(model: torch.nn.Module) -> torch.nn.Module:
    """The only child with parameters if it holds all of them, found through modules that are never called."""
    found = model
    while found is model or isinstance(found, _HOLDERS):
        with_parameters = [child for child in found.children() if next(child.parameters(), None) is not None]
        if len(with_parameters) != 1 or next(found.parameters(recurse=False), None) is not None:
            return model
        (found,) = with_parameters
    return found


def _place(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[str, torch.nn.Module]:
    """The smallest module that holds all parameters of an optimizer, and its name; the first of those equally small."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    best: tuple[int, str, torch.nn.Module] | None = None
    for name, module in model.named_modules():
        mine = {id(parameter) for parameter in module.parameters()}
        if held and held <= mine and (best is None or len(mine) < best[0]):
            best = len(mine), name.replace(".", "/"), module
    return ("", model) if best is None else best[1:]
