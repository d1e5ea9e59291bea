"""The forms in which a configuration may describe an object: a class and its arguments, in four dialects."""

from collections.abc import Collection, Mapping
from typing import Any

from tracker_adapters.values.plain import resolved

from debuggers.errors import DebuggerConfigError

_NESTED = {"class": "args", "class_path": "init_args"}
_FLAT = ("type", "_target_")
CLASS_KEYS = (*_NESTED, *_FLAT)
"""The keys that hold the class, one a dialect."""


def class_and_arguments(what: str, config: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the class of a configuration, as it is written there, and the keyword arguments.

    Args:
        what: Whose configuration it is, for messages.
        config: ``{"class": C, "args": {...}}``, ``{"type": C, **arguments}`` as in mmengine, ``{"_target_": path,
            **arguments}`` as in Hydra, or ``{"class_path": path, "init_args": {...}}`` as in jsonargparse; OmegaConf
            containers too. Arguments may be left out.

    Raises:
        DebuggerConfigError: For anything else.
    """
    config = resolved(config)
    keys = [key for key in CLASS_KEYS if key in config] if isinstance(config, Mapping) else []
    if len(keys) != 1:
        found = f"has both {' and '.join(map(repr, keys))}" if keys else "has no 'class'"
        raise DebuggerConfigError(
            f"{what}: {config!r} {found}; expected {{'class': C, 'args': {{...}}}}, {{'type': C, ...}}, "
            "{'_target_': 'dotted.path', ...}, {'class_path': 'dotted.path', 'init_args': {...}} or a debugger"
        )
    key = keys[0]
    rest = {name: value for name, value in config.items() if name != key}
    arguments = rest if key in _FLAT else _nested_arguments(what, key, rest)
    return config[key], {name: resolved(value) for name, value in arguments.items()}


def texts(what: str, value: Any) -> tuple[str, ...]:
    """Returns a str, or several, as a tuple.

    Raises:
        DebuggerConfigError: For anything else.
    """
    found = resolved(value)
    found = (found,) if isinstance(found, str) else found
    if not isinstance(found, Collection):
        raise DebuggerConfigError(f"{what} is {value!r}; expected a list of str")
    for text in found:
        if not isinstance(text, str):
            raise DebuggerConfigError(f"{what} holds {text!r}; expected a str")
    return tuple(found)


def _nested_arguments(what: str, key: str, rest: dict[Any, Any]) -> Mapping[Any, Any]:
    arguments_key = _NESTED[key]
    arguments = resolved(rest.pop(arguments_key, None) or {})
    if rest:
        raise DebuggerConfigError(
            f"{what}: unexpected {next(iter(rest))!r} beside {key!r}; expected only {arguments_key!r}"
        )
    if not isinstance(arguments, Mapping):
        raise DebuggerConfigError(f"{what}: {arguments_key!r} is {arguments!r}; expected a dict of keyword arguments")
    return arguments
