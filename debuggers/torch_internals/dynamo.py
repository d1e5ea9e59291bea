"""The compiler's front end, ``torch._dynamo`` (torch 2.7 to 2.15).

Importing it takes a second or more, so that no function here does but where it is there already, or says so.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import CodeType
from typing import Any


def is_imported() -> bool:
    """Whether dynamo was imported in this process; before that nothing is compiled."""
    return "torch._dynamo" in sys.modules


def callback_setter() -> Callable[[Any], Any]:
    """Returns what sets dynamo's callback for the frames of this thread, and returns the one before: None for none.

    Reading it by dynamo's own function takes a reference from it in some versions of torch. Imports dynamo.
    """
    import_module("torch._dynamo")
    from torch._C._dynamo.eval_frame import set_eval_frame

    return set_eval_frame


def skip_frames(codes: list[CodeType]) -> None:
    """Has dynamo let the frames of these functions run as they are; what they call may be compiled. Imports dynamo.

    ``torch.compiler.disable`` is public, and holds for all that the function calls.
    """
    from torch._dynamo.eval_frame import skip_code

    for code in codes:
        skip_code(code)


def skip_package(name: str) -> None:
    """Has dynamo trace no function of a package, and cut the graph where one is called. Imports dynamo."""
    from torch._dynamo.trace_rules import add

    add(name)


def is_tracing_whole_graph() -> bool:
    """Whether dynamo is tracing in this thread for ``fullgraph=True``; call it only while ``is_compiling``.

    Raises:
        Exception: Of any kind, where dynamo is not tracing.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    translator = InstructionTranslator.current_tx()
    return bool(translator.one_graph or getattr(translator, "error_on_graph_break", False))
