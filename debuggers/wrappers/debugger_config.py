"""Builds debuggers from a configuration, and finds their layers."""

import re
from collections.abc import Mapping, Sequence
from sys import float_info
from typing import Annotated, Any

from msgspec import Meta
from tracker_adapters.values.checked_values import check_value
from tracker_adapters.values.plain import resolved

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.forward_debugger import ForwardDebugger
from debuggers.instrumentation.module_selection import module_named, select_modules
from debuggers.page_files.index import DATAPOINT
from debuggers.torch_import import torch
from debuggers.wrappers.config_dialects import CLASS_KEYS, class_and_arguments, texts
from debuggers.wrappers.debugger_registry import find_class
from debuggers.wrappers.layer_captures import WatchedLayers

_BYTES_PER_MB = 1024 * 1024
_Megabytes = Annotated[float, Meta(gt=0, le=float_info.max, description="a positive number")]
KEPT_PARTS = ("inputs", "labels", "outputs", "meta_info", "scores", "correct")


def build_debuggers(
    debuggers_config: Sequence[Mapping[str, Any]], allow_imports: Sequence[str] = ()
) -> dict[str, BaseDebugger]:
    """Returns the debuggers by name, in the order of the configuration.

    Args:
        debuggers_config: One ``{"name": ..., "debugger_config": {"class": ..., "args": {...}}}`` each. The inner
            dict may have any form that ``config_dialects`` knows, and may stand in the entry itself, beside the name.
            In its place may also stand a debugger that is already made, as builders do that begin with what is nested.
        allow_imports: Prefixes of the dotted paths that may be imported; see ``debugger_registry``.

    Raises:
        DebuggerConfigError: For another form, a name that is missing, empty, reserved or met twice, or a class
            that is no debugger.
    """
    debuggers: dict[str, BaseDebugger] = {}
    entries = resolved(debuggers_config)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise DebuggerConfigError(f"debuggers_config is {entries!r}; expected a list with one dict for each debugger")
    for entry in entries:
        name, config = _name_and_config(resolved(entry))
        if not isinstance(name, str) or not name:
            raise DebuggerConfigError(f"a debugger's name is {name!r}; expected a non-empty str")
        if name == DATAPOINT:
            raise DebuggerConfigError(f"a debugger is named {name!r}, which pages reserve for the datapoint itself")
        if name in debuggers:
            raise DebuggerConfigError(f"two debuggers are named {name!r}; expected different names")
        debuggers[name] = _checked(name, _build(name, config, allow_imports))
    return debuggers


def find_layers(
    debuggers: Mapping[str, BaseDebugger], model: torch.nn.Module
) -> dict[str, tuple[ForwardDebugger, WatchedLayers]]:
    """Returns each debugger that watches layers with these, by its name; lets the others check the model.

    Raises:
        LayerNotFoundError: When the model lacks a layer, unless the debugger has ``missing_ok``.
        DebuggerConfigError: When the model is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise DebuggerConfigError(f"model is {model!r}; expected a torch.nn.Module")
    found: dict[str, tuple[ForwardDebugger, WatchedLayers]] = {}
    for name, debugger in debuggers.items():
        try:
            if isinstance(debugger, ForwardDebugger):
                found[name] = debugger, _layers_of(debugger, model)
            else:
                debugger.check_model(model)
        except LayerNotFoundError as error:
            raise LayerNotFoundError(f"debugger {name!r}: {error}") from error
        except DebuggerConfigError as error:
            raise DebuggerConfigError(f"debugger {name!r}: {error}") from error
    return found


def check_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """Returns the parts of a datapoint to keep.

    Raises:
        DebuggerConfigError: For an unknown part.
    """
    parts = texts("keep", keep)
    for part in parts:
        if part not in KEPT_PARTS:
            raise DebuggerConfigError(f"keep holds {part!r}; expected some of {', '.join(KEPT_PARTS)}")
    return parts


def page_bytes(page_size_mb: Any) -> int:
    """Returns a page's size in bytes.

    Raises:
        DebuggerConfigError: For anything but a positive number of MB.
    """
    check_value("page_size_mb", page_size_mb, _Megabytes, DebuggerConfigError)
    return int(page_size_mb * _BYTES_PER_MB)


def _name_and_config(entry: Any) -> tuple[Any, Any]:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise DebuggerConfigError(
            f"a debugger: {entry!r} has no 'name'; expected "
            "{'name': ..., 'debugger_config': {'class': ..., 'args': {...}}}"
        )
    rest = {key: value for key, value in entry.items() if key != "name"}
    if "debugger_config" not in rest:
        if not rest.keys() & set(CLASS_KEYS):
            raise DebuggerConfigError(
                f"debugger {entry['name']!r}: {entry!r} has no 'debugger_config', and none of "
                f"{', '.join(map(repr, CLASS_KEYS))} in its place"
            )
        return entry["name"], rest
    config = rest.pop("debugger_config")
    if rest:
        raise DebuggerConfigError(
            f"debugger {entry['name']!r}: has {next(iter(rest))!r} beside 'debugger_config'; expected 'name' only"
        )
    return entry["name"], config


def _build(name: str, config: Any, allow_imports: Sequence[str]) -> BaseDebugger:
    if isinstance(config, BaseDebugger):
        return config
    what = f"debugger {name!r}"
    cls, arguments = class_and_arguments(what, config)
    if isinstance(cls, str):
        try:
            cls = find_class(cls, allow_imports)
        except DebuggerConfigError as error:
            raise DebuggerConfigError(f"{what}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, BaseDebugger)):
        raise DebuggerConfigError(f"{what}: the class is {cls!r}; expected a subclass of BaseDebugger")
    try:
        return cls(**arguments)
    except TypeError as error:
        raise DebuggerConfigError(f"{what}: cannot make a {cls.__name__} from {arguments!r}: {error}") from error


def _checked(name: str, debugger: BaseDebugger) -> BaseDebugger:
    layer_name = getattr(debugger, "layer_name", None)  # missing where __init__ did not call that of ForwardDebugger
    if isinstance(debugger, ForwardDebugger) and not _is_selector(layer_name):
        raise DebuggerConfigError(
            f"debugger {name!r}: layer_name is {layer_name!r}; expected a name, a pattern, a regular expression or a "
            "type of modules"
        )
    return debugger


def _is_selector(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, torch.nn.Module)
    return isinstance(value, (str, re.Pattern))


def _layers_of(debugger: ForwardDebugger, model: torch.nn.Module) -> WatchedLayers:
    selector = debugger.layer_name
    if isinstance(selector, str) and (layer := module_named(model, selector)) is not None:
        return WatchedLayers((layer,), by_name=True)
    try:
        return WatchedLayers(tuple(select_modules(model, selector)), by_name=False)
    except LayerNotFoundError:
        if not debugger.missing_ok:
            raise
        return WatchedLayers((), by_name=False)
