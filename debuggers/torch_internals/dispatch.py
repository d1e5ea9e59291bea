"""Operators as torch dispatches them: the modes that see them, and their schemas (torch 2.7 to 2.15)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack

from debuggers.torch_import import torch

number_of_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""Returns how many dispatch modes of users are in effect in this thread; takes tens of nanoseconds."""
current_modes: Callable[[], list[Any]] = _get_current_dispatch_mode_stack
"""Returns these modes, the outermost first."""
without_modes: Callable[[], AbstractContextManager[Any]] = _disable_current_modes
"""Returns a context in which no dispatch mode sees any operator."""
without_overrides: Callable[[], AbstractContextManager[Any]] = torch._C.DisableTorchFunction
"""Returns a context in which neither ``__torch_function__`` nor a mode of that kind is called.

``torch._C.DisableTorchFunctionSubclass``, which torch's notes on extending describe, leaves modes on.
"""
MODES_WITHOUT_VALUES = frozenset({"FakeTensorMode", "FunctionalTensorMode", "ProxyTorchDispatchMode"})
"""Classes of modes under which tensors hold no values of their own; importing them is slow."""

operator_names: Callable[[], list[str]] = torch._C._dispatch_get_all_op_names
"""Returns the names of all operators that are registered, such as ``aten::add.Tensor``."""
OPERATOR_FILES = "torch/_ops"
"""In the path of the file whose functions call operators, also where torch comes from a build folder."""


class OperatorMode(TorchDispatchMode):
    """Sees each operator below autograd and autocast, by its ``__torch_dispatch__``; also higher-order ones.

    Dispatch modes are documented by examples only, in ``torch.utils._python_dispatch``.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled meanwhile, and importing the compiler takes a second


def schema_of(operator: Any) -> Any:
    """Returns the ``torch.FunctionSchema`` of an overload as a mode gets it; None for a higher-order operator."""
    return getattr(operator, "_schema", None)
