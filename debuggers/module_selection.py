"""Chooses modules of a model by name, pattern or type, and names them whatever wraps the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.torch_import import torch
from debuggers.utils import get_layer_by_name

Selector: TypeAlias = str | re.Pattern[str] | type[torch.nn.Module]
"""A module's dotted name, a pattern of such names as in ``fnmatch`` (``*`` also matches dots), a compiled regular
expression that matches the whole name, or a type."""
Selection: TypeAlias = Selector | Sequence[Selector]

WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
# The names under which torch.compile, FSDP and its checkpoint wrapper keep the module that they wrap.
WRAPPED = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_PARAMETRIZATIONS = "parametrizations"


@dataclass(frozen=True, slots=True, eq=False)
class NamedModule:
    """A module of a model.

    Attributes:
        name: Its dotted name without the wrappers of data parallelism and compilation; of the model itself the name
            of its class.
        aliases: Its other names, where it is used under several.
        module: The module.
        opaque: Whether it runs inside a module that ``torch.compile`` or ``torch.jit`` compiled, where forward hooks
            are not called.
    """

    name: str
    aliases: tuple[str, ...]
    module: torch.nn.Module
    opaque: bool


def select_modules(model: torch.nn.Module, selection: Selection | None = None) -> list[NamedModule]:
    """Returns the modules that any selector matches by one of their names or their type, in the model's order.

    Without a selection: all leaf modules. A module that ``torch.compile`` wrapped is a leaf, and what it wraps is
    listed too, as opaque; so is ``MultiheadAttention``, which never calls its output projection as a module.
    Parametrizations are no modules of their own.

    Raises:
        LayerNotFoundError: When a selector matches nothing; the message lists the nearest names.
        DebuggerConfigError: For a selector of another type.
    """
    modules = list(_walk(model))
    if selection is None:
        return [entry for entry in modules if _is_leaf(entry.module)]
    selectors = [selection] if isinstance(selection, (str, re.Pattern, type)) else list(selection)
    chosen: set[int] = set()
    for selector in selectors:
        matches = [row for row, entry in enumerate(modules) if _matches(entry, selector)]
        if not matches:
            _refuse(model, selector)
        chosen.update(matches)
    return [modules[row] for row in sorted(chosen)]


def _walk(model: torch.nn.Module) -> Iterator[NamedModule]:
    while isinstance(model, WRAPPERS):
        model = model.module
    found: dict[int, tuple[torch.nn.Module, dict[str, None], list[bool]]] = {}
    for path, module, opaque in _visit(model, (), opaque=False):
        _, names, hidden = found.setdefault(id(module), (module, {}, []))
        names[".".join(path) or _class_name(module)] = None
        hidden.append(opaque)
    taken: set[str] = set()
    for module, names, hidden in found.values():
        name, *aliases = names
        # The wrapper stands for a compiled module of the same name.
        if name not in taken:
            taken.add(name)
            yield NamedModule(name, tuple(aliases), module, all(hidden))


def _visit(
    module: torch.nn.Module, path: tuple[str, ...], *, opaque: bool
) -> Iterator[tuple[tuple[str, ...], torch.nn.Module, bool]]:
    scripted = isinstance(module, torch.jit.ScriptModule)
    opaque = opaque or scripted or getattr(module, "_compiled_call_impl", None) is not None
    yield path, module, opaque
    if scripted or isinstance(module, torch.nn.MultiheadAttention):
        return
    for name, child in module._modules.items():
        if child is not None and name != _PARAMETRIZATIONS:
            inner = path if name in WRAPPED else (*path, name)
            yield from _visit(child, inner, opaque=opaque or _is_compiled(module))


def _is_compiled(module: torch.nn.Module) -> bool:
    """Whether ``torch.compile`` returned it; importing its class would take a second."""
    return "_orig_mod" in module._modules


def _class_name(module: torch.nn.Module) -> str:
    return type(module._orig_mod if _is_compiled(module) else module).__name__


def _is_leaf(module: torch.nn.Module) -> bool:
    if isinstance(module, (torch.jit.ScriptModule, torch.nn.MultiheadAttention)) or _is_compiled(module):
        return True
    return not module._modules.keys() - {_PARAMETRIZATIONS}


def _matches(entry: NamedModule, selector: Any) -> bool:
    if isinstance(selector, type):
        return isinstance(entry.module, selector)
    names = (entry.name, *entry.aliases)
    if isinstance(selector, str):
        return selector in names or any(fnmatchcase(name, selector) for name in names)
    if isinstance(selector, re.Pattern):
        return any(selector.fullmatch(name) for name in names)
    raise DebuggerConfigError(
        f"module selector {selector!r}: expected a name, a pattern, a regular expression or a type"
    )


def _refuse(model: torch.nn.Module, selector: Selector) -> None:
    if isinstance(selector, str):
        get_layer_by_name(model, selector)  # raises, and lists the nearest names
    shown = selector.__name__ if isinstance(selector, type) else repr(selector)
    raise LayerNotFoundError(f"{type(model).__name__} has no module that matches {shown}")
