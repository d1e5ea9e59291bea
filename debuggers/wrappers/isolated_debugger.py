"""Isolates the failures and random draws of a debugger."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from debuggers.base_debugger import BaseDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.instrumentation.isolation import Isolation, describe
from debuggers.instrumentation.module_selection import selector_text
from debuggers.instrumentation.random_state import preserved_random_state
from debuggers.torch_import import torch
from debuggers.wrappers.forward_passes import ForwardPass


class IsolatedDebugger:
    """A named debugger whose methods can neither stop the run nor change its random numbers."""

    def __init__(self, name: str, debugger: BaseDebugger, isolation: Isolation) -> None:
        self.name = name
        self.debugger = debugger
        self._isolation = isolation

    @property
    def place(self) -> str:
        """Names the debugger, and the layer that it is looking at, in messages."""
        if not isinstance(self.debugger, ForwardDebugger):
            return f"debugger {self.name!r}"
        return f"debugger {self.name!r} at layer {selector_text(self.debugger.layer_name)}"

    def random_state_kept(self) -> AbstractContextManager[None]:
        """Restores the random number generators after a call of the debugger."""
        return preserved_random_state() if self.debugger.draws_random_numbers else nullcontext()

    def attempt(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function of the debugger; its exception becomes ``{"error": ...}``."""
        try:
            with self.random_state_kept():
                return function(*args)
        except Exception as error:
            failure = self.fail(error)
            if self._isolation.on_error == "raise":
                raise
            return failure

    def fail(self, error: Exception) -> dict[str, str]:
        """Records an exception, and returns what the debugger's slot holds instead of outputs."""
        self._isolation.record(self.place, error)
        return {"error": describe(error)}

    def outputs(self, datapoint: dict[str, Any], model: torch.nn.Module, of_pass: ForwardPass) -> Any:
        """Returns the slot of the debugger for a datapoint, whose forward pass was ``of_pass``."""
        return self.attempt(self.debugger, datapoint, model)
