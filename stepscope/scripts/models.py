"""Finds the model that an optimizer trains, among all modules of the process."""

from __future__ import annotations

import gc
from collections.abc import Sequence

from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters
from stepscope.integrations.parts import called_module, has_forward, held


def model_of(
    optimizer: torch.optim.Optimizer, models: Sequence[torch.nn.Module] | None = None
) -> torch.nn.Module | None:
    """Returns the module that holds what an optimizer trains; None where no module holds any of it.

    With ``models`` it is the first of these that holds a part of it; the rest is about all modules of the process.

    That is the outermost module that can be called and holds all of it, such as a ``DistributedDataParallel``. Where
    several modules hold a part each, such as an encoder and a decoder, it is a ``ModuleDict`` of them.
    """
    wanted = {id(parameter) for parameter in held_parameters(optimizer)}
    if models is not None:
        return next((model for model in models if wanted & held(model)), None)
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    inner = {id(child) for module in modules for child in _children(module)}
    roots = [module for module in modules if id(module) not in inner and wanted & held(module)]
    if not roots:
        return None
    for root in sorted(roots, key=lambda one: len(held(one))):
        if wanted <= held(root):
            return called_module(root, wanted, is_called=has_forward(root))
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
