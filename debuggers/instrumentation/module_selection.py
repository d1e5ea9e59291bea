"""Chooses modules of a model by name, pattern or type, and names them whatever wraps the model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.instrumentation.call_observers import is_compiled_in_place
from debuggers.instrumentation.long_names import fitting_name
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import WRAPPED, children_of, is_compiled
from debuggers.utils import nearest_names

Selector: TypeAlias = str | re.Pattern[str] | type[torch.nn.Module]
"""A module's dotted name (``""`` is the model itself), a pattern of such names as in ``fnmatch`` (``*`` also matches
dots), ``re:`` with a regular expression that matches the whole name, the same compiled, or a type."""
Selection: TypeAlias = Selector | Sequence[Selector]

WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
_PARAMETRIZATIONS = "parametrizations"
_EXPRESSION = "re:"


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
    Parametrizations are no modules of their own, and chosen only by their exact names.

    Raises:
        LayerNotFoundError: When a selector matches nothing; the message lists the nearest names, or types.
        DebuggerConfigError: For a selector of another type, or an expression that cannot be compiled.
    """
    modules = list(_walk(model))
    if selection is None:
        return [entry for entry in modules if _is_leaf(entry.module)]
    found = (entry for selector in as_selectors(selection) for entry in _matching(model, modules, selector))
    chosen = {id(entry.module): entry for entry in found}
    rows = {id(entry.module): row for row, entry in enumerate(modules)}
    return sorted(chosen.values(), key=lambda entry: rows.get(id(entry.module), len(rows)))


def as_selectors(selection: Selection) -> list[Selector]:
    """Returns the selectors of a selection, which may be one alone."""
    return [selection] if isinstance(selection, (str, re.Pattern, type)) else list(selection)


def module_named(model: torch.nn.Module, name: str) -> NamedModule | None:
    """Returns the module that has exactly this name, with or without the names of wrappers, or None."""
    return _named(model, list(_walk(model)), name)


def selector_text(selector: Any) -> str:
    """Returns a selector as messages show it."""
    if isinstance(selector, type):
        return selector.__name__
    return repr(f"{_EXPRESSION}{selector.pattern}" if isinstance(selector, re.Pattern) else selector)


def _walk(model: torch.nn.Module) -> Iterator[NamedModule]:
    model = _unwrapped(model)
    found: dict[int, tuple[torch.nn.Module, dict[tuple[str, ...], None], list[bool]]] = {}
    for path, module, opaque in _visit(model, (), opaque=False):
        _, paths, hidden = found.setdefault(id(module), (module, {}, []))
        paths[path] = None
        hidden.append(opaque)
    taken: set[tuple[str, ...]] = set()
    for module, paths, hidden in found.values():
        path, *others = paths
        # The wrapper stands for the module of the same name that it wraps.
        if path not in taken:
            taken.add(path)
            aliases = tuple(fitting_name(".".join(other)) for other in others)
            yield NamedModule(fitting_name(".".join(path)) or _class_name(model), aliases, module, all(hidden))


def _visit(
    module: torch.nn.Module, path: tuple[str, ...], *, opaque: bool
) -> Iterator[tuple[tuple[str, ...], torch.nn.Module, bool]]:
    opaque = opaque or _is_opaque(module)
    yield path, module, opaque
    if isinstance(module, (torch.jit.ScriptModule, torch.nn.MultiheadAttention)):
        return
    for name, child in children_of(module).items():
        if child is not None and name != _PARAMETRIZATIONS:
            hidden = name in WRAPPED or isinstance(module, WRAPPERS)
            yield from _visit(child, path if hidden else (*path, name), opaque=opaque or is_compiled(module))


def _is_opaque(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or is_compiled_in_place(module)


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    while isinstance(model, WRAPPERS):
        model = model.module
    return model


def _innermost(module: torch.nn.Module) -> torch.nn.Module:
    """Returns what a wrapper of any kind wraps; any other module as it is."""
    if isinstance(module, WRAPPERS):
        return _innermost(module.module)
    children = children_of(module)
    inner = next((children[name] for name in WRAPPED if name in children), None)
    return module if inner is None else _innermost(inner)


def _class_name(model: torch.nn.Module) -> str:
    """Returns the name of a model's class, whatever wraps it: what the model itself is called."""
    return type(_innermost(model)).__name__


def _is_leaf(module: torch.nn.Module) -> bool:
    if is_compiled(module):
        return True
    module = _innermost(module)
    if isinstance(module, (torch.jit.ScriptModule, torch.nn.MultiheadAttention)):
        return True
    return not children_of(module).keys() - {_PARAMETRIZATIONS}


def _matching(model: torch.nn.Module, modules: list[NamedModule], selector: Any) -> list[NamedModule]:
    if isinstance(selector, str) and (exact := _named(model, modules, selector)):
        return [exact]
    if isinstance(selector, str) and selector.startswith(_EXPRESSION):
        selector = _compiled_expression(selector)
    if found := [entry for entry in modules if _matches(entry, selector)]:
        return found
    what = "layer" if isinstance(selector, str) and not re.search(r"[*?\[]", selector) else "module that matches"
    if isinstance(selector, type):
        hint = nearest_names(selector.__name__, {_class_name(entry.module): None for entry in modules})
    else:
        text = selector.pattern if isinstance(selector, re.Pattern) else selector
        hint = nearest_names(text, [name for entry in modules[1:] for name in (entry.name, *entry.aliases)])
    raise LayerNotFoundError(f"{_class_name(model)} has no {what} {selector_text(selector)}; {hint}")


def _matches(entry: NamedModule, selector: Any) -> bool:
    if isinstance(selector, type):
        return isinstance(entry.module, selector) or isinstance(_innermost(entry.module), selector)
    names = (entry.name, *entry.aliases)
    if isinstance(selector, str):
        return any(fnmatchcase(name, selector) for name in names)
    if isinstance(selector, re.Pattern):
        return any(selector.fullmatch(name) for name in names)
    raise DebuggerConfigError(
        f"module selector {selector!r}: expected a name, a pattern, a regular expression or a type"
    )


def _compiled_expression(selector: str) -> re.Pattern[str]:
    try:
        return re.compile(selector.removeprefix(_EXPRESSION))
    except re.error as error:
        raise DebuggerConfigError(f"module selector {selector!r} is not a regular expression: {error}") from error


def _named(model: torch.nn.Module, modules: list[NamedModule], name: str) -> NamedModule | None:
    # A child may have the name of the model's class; the model itself is the first entry.
    for entry in (*modules[1:], modules[0]):
        if name in (entry.name, *entry.aliases):
            return entry
    return _at_path(model, modules, name)


def _at_path(model: torch.nn.Module, modules: list[NamedModule], name: str) -> NamedModule | None:
    """Returns the module at a path that goes through wrappers, or into what is no module of its own."""
    module, opaque = model, False
    for key in name.split(".") if name else ():
        opaque = opaque or _is_opaque(module) or is_compiled(module)
        children = children_of(module)
        if key not in children or (child := children[key]) is None:
            return None
        module = child
    module = _unwrapped(module)
    for entry in modules:
        if entry.module is module:
            return entry
    return NamedModule(name, (), module, opaque=opaque or _is_opaque(module))
