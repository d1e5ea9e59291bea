"""Builds debuggers from a configuration, and finds their layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from debuggers.base_debugger import BaseDebugger
from debuggers.capture import DATAPOINT
from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.forward_debugger import ForwardDebugger
from debuggers.torch_import import torch
from debuggers.utils import get_layer_by_name

KEPT_PARTS = ("inputs", "labels", "outputs", "meta_info", "scores", "correct")


def build_debuggers(debuggers_config: Sequence[Mapping[str, Any]]) -> dict[str, BaseDebugger]:
    """Returns the debuggers by name, in the order of the configuration.

    Args:
        debuggers_config: One ``{"name": ..., "debugger_config": {"class": ..., "args": {...}}}`` each;
            ``args`` may be left out.

    Raises:
        DebuggerConfigError: For another form, a name that is missing, empty, reserved or met twice, or a class
            that is no debugger.
    """
    debuggers: dict[str, BaseDebugger] = {}
    for entry in debuggers_config:
        name = _value(entry, "name", "a debugger")
        if not isinstance(name, str) or not name:
            raise DebuggerConfigError(f"a debugger's name is {name!r}; expected a non-empty str")
        if name == DATAPOINT:
            raise DebuggerConfigError(f"a debugger is named {name!r}, which pages reserve for the datapoint itself")
        if name in debuggers:
            raise DebuggerConfigError(f"two debuggers are named {name!r}; expected different names")
        debuggers[name] = _build(name, _value(entry, "debugger_config", f"debugger {name!r}"))
    return debuggers


def find_layers(debuggers: Mapping[str, BaseDebugger], model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Returns the layer of each debugger that watches one, by the debugger's name.

    Raises:
        LayerNotFoundError: When the model lacks a layer, unless the debugger has ``missing_ok``.
    """
    layers: dict[str, torch.nn.Module] = {}
    for name, debugger in debuggers.items():
        if isinstance(debugger, ForwardDebugger):
            try:
                layers[name] = get_layer_by_name(model, debugger.layer_name)
            except LayerNotFoundError as error:
                if not debugger.missing_ok:
                    raise LayerNotFoundError(f"debugger {name!r}: {error}") from error
    return layers


def check_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """Returns the parts of a datapoint to keep.

    Raises:
        DebuggerConfigError: For an unknown part.
    """
    parts = (keep,) if isinstance(keep, str) else tuple(keep)
    for part in parts:
        if part not in KEPT_PARTS:
            raise DebuggerConfigError(f"keep holds {part!r}; expected some of {', '.join(KEPT_PARTS)}")
    return parts


def _value(entry: Any, key: str, what: str) -> Any:
    if not isinstance(entry, Mapping) or key not in entry:
        raise DebuggerConfigError(
            f"{what}: {entry!r} has no {key!r}; expected "
            "{'name': ..., 'debugger_config': {'class': ..., 'args': {...}}}"
        )
    return entry[key]


def _build(name: str, config: Any) -> BaseDebugger:
    cls = _value(config, "class", f"debugger {name!r}")
    if not (isinstance(cls, type) and issubclass(cls, BaseDebugger)):
        raise DebuggerConfigError(f"debugger {name!r}: the class is {cls!r}; expected a subclass of BaseDebugger")
    args = config.get("args") or {}
    try:
        debugger = cls(**args)
    except TypeError as error:
        raise DebuggerConfigError(f"debugger {name!r}: cannot make a {cls.__name__} from {args!r}: {error}") from error
    if isinstance(debugger, ForwardDebugger) and not isinstance(debugger.layer_name, str):
        raise DebuggerConfigError(f"debugger {name!r}: layer_name is {debugger.layer_name!r}; expected a str")
    return debugger
