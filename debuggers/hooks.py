"""The only place where torch hooks are registered and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from debuggers.torch_import import torch

HookFunction = Callable[[torch.nn.Module, Any, Any], None]


class ForwardHook:
    """Hands a module's input and output to a function, and never changes the output.

    It can be pickled and copied with its module. The copy does nothing: it belongs to no debugger.
    """

    __slots__ = ("_function",)

    def __init__(self, function: HookFunction | None = None) -> None:
        self._function = function

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward."""
        if self._function is not None:
            self._function(module, inputs, output)

    def __reduce__(self) -> tuple[type[ForwardHook], tuple[()]]:
        return ForwardHook, ()


class Hooks:
    """The hooks of one owner. The handles lie here, never in the model; ``remove`` takes all of them away.

    As a context manager it removes them when the block ends, also after an exception.
    """

    def __init__(self) -> None:
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def add_forward(self, hooks: Iterable[tuple[torch.nn.Module, HookFunction]]) -> None:
        """Registers a function on each module: all of them, or none if one cannot be registered."""
        added: list[torch.utils.hooks.RemovableHandle] = []
        try:
            for module, function in hooks:
                added.append(module.register_forward_hook(ForwardHook(function)))
        except BaseException:
            for handle in added:
                handle.remove()
            raise
        self._handles += added

    def remove(self) -> None:
        """Removes every hook; calling it again does nothing."""
        while self._handles:
            self._handles.pop().remove()

    def __len__(self) -> int:
        return len(self._handles)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
