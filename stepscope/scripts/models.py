"""Finds the model that an optimizer trains, among all modules of the process."""

from __future__ import annotations

import gc

from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters


def model_of(optimizer: torch.optim.Optimizer) -> torch.nn.Module | None:
    """Returns the module that holds what an optimizer trains; None where no module holds any of it.

    That is the outermost module that can be called and holds all of it, such as a ``DistributedDataParallel``. Where
    several modules hold a part each, such as an encoder and a decoder, it is a ``ModuleDict`` of them.
    """
    wanted = {id(parameter) for parameter in held_parameters(optimizer)}
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    inner = {id(child) for module in modules for child in _children(module)}
    roots = [module for module in modules if id(module) not in inner and wanted & _held(module)]
    if not roots:
        return None
    for root in sorted(roots, key=lambda one: len(_held(one))):
        if wanted <= _held(root):
            return _called(root, wanted)
    parts = torch.nn.ModuleDict()
    for root in roots:
        name = type(root).__name__.lower()
        parts[name if name not in parts else f"{name}_{len(parts)}"] = root
    return parts


def _children(module: torch.nn.Module) -> list[torch.nn.Module]:
    try:
        return list(module.children())
    except AttributeError:  # its constructor has not come so far
        return []


def _held(module: torch.nn.Module) -> set[int]:
    try:
        return {id(parameter) for parameter in module.parameters()}
    except AttributeError:
        return set()


def _called(root: torch.nn.Module, wanted: set[int]) -> torch.nn.Module:
    """The outermost module from a root on that has a forward and holds all that is wanted; the root if none does."""
    module = root
    while type(module).forward is torch.nn.Module.forward:  # a container that is never called
        holding = [child for child in module.children() if wanted <= _held(child)]
        if len(holding) != 1:
            return root
        module = holding[0]
    return module
