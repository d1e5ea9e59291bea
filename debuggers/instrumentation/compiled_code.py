"""Keeps ``torch.compile`` out of this package: dynamo would trace its functions into the code that it compiles.

torch imports dynamo when the first optimizer is made, which takes a second or more. Before that nothing is compiled,
so nothing here imports it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, wraps
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from debuggers.torch_import import torch
from debuggers.torch_internals import dynamo

_log = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)
_skipped: list[CodeType] = []
_shielded: Callable[..., Any] | None = None
_set_callback: Callable[[Any], Any] | None = None
"""Sets what dynamo does with the frames of this thread, and returns what it did: None for nothing."""
_REASON = "stepscope measures between compiled graphs; remove fullgraph=True, or call it outside of compiled code"


def never_compiled(function: _Function) -> _Function:
    """Keeps a function's own frame from being compiled; what it calls may be, and it can be traced by its caller."""
    _skipped.append(function.__code__)
    return function


def between_graphs(function: _Function) -> _Function:
    """Has a function, and all that it calls, run as it is: code that is compiled around a call of it is cut in two.

    With ``fullgraph=True`` torch raises an error that names the reason.
    """

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return uncompiled(function, *arguments, **keywords)

    skipped = cast(_Function, call)
    if skipped.__code__ not in _skipped:  # all calls share one
        never_compiled(skipped)
    return skipped


def methods_between_graphs(kind: _Class) -> _Class:
    """Has the public methods that a class defines run as ``between_graphs`` says."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, FunctionType) and (name == "__call__" or not name.startswith("_")):
            setattr(kind, name, between_graphs(member))
    return kind


@never_compiled
def uncompiled(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    """Calls a function as ``between_graphs`` does.

    Where dynamo is off in this thread, as inside another such call, the function is simply called.
    """
    if _shielded is None or _set_callback is None:
        prepare()
    if _shielded is None or _set_callback is None:
        return function(*arguments, **keywords)
    if not torch.compiler.is_dynamo_compiling():  # it takes a third of the time of is_compiling
        callback = _set_callback(None)
        if callback is None:
            return function(*arguments, **keywords)
        _set_callback(callback)
    return _shielded(function, *arguments, **keywords)


@never_compiled
def is_plain() -> bool:
    """Whether nothing that this thread calls would be compiled, so that ``uncompiled`` is not needed."""
    if _set_callback is None or torch.compiler.is_dynamo_compiling():
        return False
    callback = _set_callback(None)
    if callback is None:
        return True
    _set_callback(callback)
    return False


def prepare() -> None:
    """Puts into effect what this module promises, once dynamo is there; called where hooks are set."""
    if dynamo.is_imported():
        _prepare()


def graph_must_be_whole() -> bool:
    """Whether dynamo is tracing for ``fullgraph=True``; it takes the answer for a constant of the code it compiles."""
    try:
        whole = dynamo.is_tracing_whole_graph()
    except Exception:  # dynamo's own affairs; a graph that is not cut cannot fail
        whole = True
    if whole:
        _warn()
    return whole


@cache
def _prepare() -> None:
    global _shielded, _set_callback
    _shielded = torch.compiler.disable(_call, **_reason())  # type: ignore[no-untyped-call]
    _set_callback = dynamo.callback_setter()
    torch.compiler.assume_constant_result(graph_must_be_whole)  # type: ignore[no-untyped-call]
    dynamo.skip_frames(_skipped)
    # Emitters never import torch, and so cannot say it themselves.
    dynamo.skip_package("tracker_adapters")


def _call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return function(*arguments, **keywords)


def _reason() -> dict[str, str]:
    from inspect import signature

    return {"reason": _REASON} if "reason" in signature(torch.compiler.disable).parameters else {}


@cache
def _warn() -> None:
    _log.warning(
        "an optimizer's step, or a backward pass, is compiled with fullgraph=True, which leaves no place to measure: "
        "its steps are not seen; remove fullgraph=True, or call session.step() outside of the compiled code"
    )
