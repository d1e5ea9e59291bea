"""Keeps ``torch.compile`` out of this package: dynamo would trace its functions into the code that it compiles.

torch imports dynamo when the first optimizer is made, which takes a second or more. Before that nothing is compiled,
so nothing here imports it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache, wraps
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from debuggers.torch_import import torch

_log = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)
_skipped: list[CodeType] = []
_DYNAMO = "torch._dynamo"
_REASON = "stepscope measures between compiled graphs; leave out fullgraph=True, or call it outside of compiled code"


def runs_as_it_is(function: _Function) -> _Function:
    """Keeps a function's own frame from being compiled; what it calls may be, and it can be traced by its caller."""
    _skipped.append(function.__code__)
    return function


def between_graphs(function: _Function) -> _Function:
    """Has a function, and all that it calls, run as it is: code that is compiled around a call of it is cut in two.

    With ``fullgraph=True`` torch raises an error that names the reason.
    """

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return _run(function, *arguments, **keywords)

    skipped = cast(_Function, call)
    if skipped.__code__ not in _skipped:  # all calls share one
        runs_as_it_is(skipped)
    return skipped


def methods_between_graphs(kind: _Class) -> _Class:
    """Has the public methods that a class defines run as ``between_graphs`` says."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, FunctionType) and (name == "__call__" or not name.startswith("_")):
            setattr(kind, name, between_graphs(member))
    return kind


@runs_as_it_is
def uncompiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function as ``between_graphs`` does."""
    return _run(function, *arguments)


def prepare() -> None:
    """Puts into effect what this module promises, once dynamo is there; called where hooks are set."""
    if _DYNAMO in sys.modules:
        _prepare()


def graph_must_be_whole() -> bool:
    """Whether dynamo is tracing for ``fullgraph=True``; it takes the answer for a constant of the code it compiles."""
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        translator = InstructionTranslator.current_tx()
        whole = bool(translator.one_graph or getattr(translator, "error_on_graph_break", False))
    except Exception:  # dynamo's own affairs; a graph that is not cut cannot fail
        whole = True
    if whole:
        _warn()
    return whole


def _run(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    prepare()
    return function(*arguments, **keywords)


@cache
def _prepare() -> None:
    from torch._dynamo.eval_frame import skip_code
    from torch._dynamo.trace_rules import add

    global _run
    _run = torch.compiler.disable(_call, **_reason())  # type: ignore[no-untyped-call]
    torch.compiler.assume_constant_result(graph_must_be_whole)  # type: ignore[no-untyped-call]
    for code in _skipped:
        skip_code(code)
    # Emitters never import torch, and so cannot say it themselves.
    add("tracker_adapters")


def _call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return function(*arguments, **keywords)


def _reason() -> dict[str, str]:
    from inspect import signature

    return {"reason": _REASON} if "reason" in signature(torch.compiler.disable).parameters else {}


@cache
def _warn() -> None:
    _log.warning(
        "an optimizer's step, or a backward pass, is compiled with fullgraph=True, which leaves no place to measure: "
        "its steps are not seen; leave out fullgraph=True, or call session.step() outside of the compiled code"
    )
