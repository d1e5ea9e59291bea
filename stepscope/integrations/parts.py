"""What each optimizer of a training trains."""

from collections.abc import Sequence
from dataclasses import dataclass

from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters


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
        return [Part(model if is_called else _called_child(model), inner[0])]
    places = [_place(model, one) for one in inner]
    names = [name for name, _ in places]
    unique = "" not in names and len(set(names)) == len(names)
    return [
        Part(
            _called_child(module) if module is model and not is_called else module,
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


def held(module: torch.nn.Module) -> set[int]:
    """Returns the identities of a module's parameters; empty before its constructor has come so far."""
    try:
        return {id(parameter) for parameter in module.parameters()}
    except AttributeError:
        return set()


def has_forward(module: torch.nn.Module) -> bool:
    """Whether a module can be called; containers such as ``ModuleList`` cannot."""
    return type(module).forward is not torch.nn.Module.forward


def called_module(root: torch.nn.Module, wanted: set[int], *, is_called: bool) -> torch.nn.Module:
    """Returns the outermost module from a root on that is called and holds all wanted parameters.

    Inputs and outputs are seen where a module is called. The root itself is returned where it is called, and where no
    single child holds all that is wanted.

    Args:
        root: The module to begin with.
        wanted: Identities of parameters, as of ``held``.
        is_called: Whether the root is called; of modules inside it is known by ``has_forward``.
    """
    module = root
    while not is_called:
        holding = [child for child in module.children() if wanted <= held(child)]
        if len(holding) != 1:
            return root
        (module,) = holding
        is_called = has_forward(module)
    return module


def _called_child(model: torch.nn.Module) -> torch.nn.Module:
    return called_module(model, held(model), is_called=False)


def _place(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[str, torch.nn.Module]:
    """The smallest module that holds all parameters of an optimizer, and its name; the first of those equally small."""
    wanted = {id(parameter) for parameter in held_parameters(optimizer)}
    best: tuple[int, str, torch.nn.Module] | None = None
    for name, module in model.named_modules():
        mine = held(module)
        if wanted and wanted <= mine and (best is None or len(mine) < best[0]):
            best = len(mine), name.replace(".", "/"), module
    return ("", model) if best is None else best[1:]
