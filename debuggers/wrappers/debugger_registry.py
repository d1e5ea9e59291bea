"""Resolves names in a configuration to debugger classes: built-in ones, plug-ins, and allowed dotted paths."""

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.wrappers.config_dialects import texts

ENTRY_POINT_GROUP = "stepscope.debuggers"
BUILT_IN = {
    "FeatureMapDebugger": "debuggers.feature_map",
    "AttentionDebugger": "debuggers.attention",
    "ActivationStatsDebugger": "debuggers.activation_stats",
    "LayerOutputDebugger": "debuggers.layer_output",
    "GradCAMDebugger": "debuggers.gradcam",
    "GradCAMPlusPlusDebugger": "debuggers.gradcam_plus_plus",
    "EigenCAMDebugger": "debuggers.eigencam",
}
"""The module of each built-in debugger, by the name of its class."""


def find_class(name: str, allow_imports: Sequence[str]) -> Any:
    """Returns what a name in a configuration stands for; imports nothing that is neither registered nor allowed.

    Args:
        name: The class name or dotted path of a built-in debugger, the name of an entry point of the group
            ``stepscope.debuggers``, or a dotted path under one of ``allow_imports``.
        allow_imports: Packages and modules whose content may be imported, such as ``"my_package."``.

    Raises:
        DebuggerConfigError: For any other name, and for one that leads to nothing.
    """
    module, _, attribute = name.rpartition(".")
    if name in BUILT_IN or BUILT_IN.get(attribute) == module:
        return _imported(name, BUILT_IN[attribute], attribute)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return _imported(name, entry.module, entry.attr)
    if module and any(_is_under(name, prefix) for prefix in allow_imports):
        return _imported(name, module, attribute)
    raise DebuggerConfigError(
        f"{name!r} is not a registered debugger and not allowed to be imported; expected one of {', '.join(BUILT_IN)}, "
        f"an entry point of the group {ENTRY_POINT_GROUP!r}, or a dotted path that allow_imports covers: "
        f"{list(allow_imports)!r}"
    )


def check_allow_imports(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Returns the prefixes of dotted paths that may be imported.

    Raises:
        DebuggerConfigError: For an empty prefix, which would allow everything, and for anything but a str.
    """
    checked = texts("allow_imports", prefixes)
    for prefix in checked:
        if not prefix or prefix.startswith("."):
            raise DebuggerConfigError(f"allow_imports holds {prefix!r}; expected the start of a dotted path")
    return checked


def _is_under(name: str, prefix: str) -> bool:
    """Whether a dotted path lies under a prefix: ``my_package`` does not stand for ``my_package_2``."""
    return name.startswith(f"{prefix.rstrip('.')}.")


def _imported(name: str, module: str, attribute: str) -> Any:
    try:
        return reduce(getattr, attribute.split("."), import_module(module))
    except (ImportError, AttributeError) as error:
        raise DebuggerConfigError(f"{name!r}: cannot import {attribute} from {module}: {error}") from error
