"""What modules keep in themselves, and the names under which torch's wrappers keep modules (torch 2.7 to 2.15)."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from types import FrameType
from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from debuggers.torch_import import torch

BatchNorm: type[torch.nn.Module] = _BatchNorm
"""The base of all batch norms."""
RunningNorm: type[torch.nn.Module] = _NormBase
"""The base of all norms that may keep running statistics: batch norms and instance norms."""
Dropout: type[torch.nn.Module] = _DropoutNd
"""The base of all dropouts."""

parameters_of: Callable[[torch.nn.Module], dict[str, torch.nn.Parameter | None]] = attrgetter("_parameters")
"""Returns what a module itself has registered, by name; the table itself. ``named_parameters`` leaves out what is there
under two names, and walks through the children."""
buffers_of: Callable[[torch.nn.Module], dict[str, torch.Tensor | None]] = attrgetter("_buffers")
"""The same of buffers."""
children_of: Callable[[torch.nn.Module], dict[str, torch.nn.Module | None]] = attrgetter("_modules")
"""The same of modules. ``named_children`` leaves out what is there under two names.

Of a scripted module it is no dict, and has ``in``, ``[]``, ``keys`` and ``items`` alone."""

COMPILED_CALL = "_compiled_call_impl"
"""The attribute in which ``torch.nn.Module.compile`` puts what is called in place of ``PLAIN_CALL``; None before.

``torch.nn.Module`` calls what is there, and neither copies nor pickles it.
"""
PLAIN_CALL = "_call_impl"
"""The method that calls a module with all its hooks and without regard for ``COMPILED_CALL``."""
_MODULE_FILE = torch.nn.Module.forward.__code__.co_filename

COMPILED = "_orig_mod"
"""The name under which ``torch.compile(module)`` keeps the module."""
WRAPPED = frozenset({COMPILED, "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""The names under which ``torch.compile``, FSDP and its checkpoint wrapper keep the module that they wrap."""


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether ``torch.compile`` returned it; importing its class would take a second."""
    return COMPILED in children_of(module)


def is_replica(module: Any) -> bool:
    """Whether ``torch.nn.DataParallel`` made this module for another device; it has the attributes of its original."""
    # Not by ``getattr``: a module that lacks it raises an error inside, which each step would pay for.
    return bool(getattr(module, "__dict__", {}).get("_is_replica", False))


def is_call_of_module(frame: FrameType) -> bool:
    """Whether a frame is a module's call: then it has the variables ``self``, ``args`` and ``kwargs``."""
    return frame.f_code.co_name == PLAIN_CALL and frame.f_code.co_filename == _MODULE_FILE


def hook_tables(module: torch.nn.Module) -> Iterator[dict[Any, Any]]:
    """Yields the dicts in which a module keeps its own hooks, of every kind, and what it knows of them."""
    for name, value in vars(module).items():
        if "_hooks" in name and isinstance(value, dict):
            yield value


def keep_out_of_scripts(attribute: str) -> None:
    """Has ``torch.jit.script`` pass over an attribute of all modules.

    ``__jit_ignored_attributes__`` is for one class, and would have to be put into those of users.
    """
    ignored = torch.jit._recursive.ignored_attributes
    if attribute not in ignored:
        ignored.append(attribute)
