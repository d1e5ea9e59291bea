"""Tracks which module is running during a forward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from debuggers.instrumentation.hooks import Hooks
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id
from debuggers.torch_internals.modules import WRAPPED


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A call of a module. ``name`` is its dotted path, ``""`` for the model; ``number`` counts its calls from 1."""

    name: str
    type_name: str
    number: int


class ModuleCalls:
    """The running calls of a model's modules, the innermost last, and the number of calls of each.

    A call inside a backward pass, where activation checkpointing recomputes, has the number of the last call.
    """

    def __init__(self) -> None:
        self.running: list[ModuleCall] = []
        self.counts: Counter[str] = Counter()
        self._passes: list[int] = []

    def compute_a_forward(self) -> bool:
        """Whether the running code belongs to a forward pass.

        Inside a backward pass it does if the innermost module was called in that pass, which recomputes its forward.
        """
        return backward_pass_id() == (self._passes[-1] if self._passes else NO_BACKWARD_PASS)

    def attach(
        self,
        model: torch.nn.Module,
        hooks: Hooks,
        *,
        began: Callable[[tuple[Any, ...], dict[str, Any]], None],
        ending: Callable[[], None],
        ended: Callable[[ModuleCall, Any], None],
    ) -> None:
        """Adds hooks to a model; scripted modules, which allow none, count as part of their callers.

        Args:
            model: The model.
            hooks: Holds the hooks.
            began: Called with the arguments of each call of the model itself, outside of backward passes.
            ending: Called at the end of each call, while it is still the innermost running one.
            ended: Called after each call, with the call and its output.
        """

        def before(name: str, module: torch.nn.Module) -> Callable[..., None]:
            type_name = type(module).__name__

            def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                backward_pass = backward_pass_id()
                if backward_pass == NO_BACKWARD_PASS:
                    self.counts[name] += 1
                    if not name:
                        began(args, kwargs)
                self.running.append(ModuleCall(name, type_name, max(1, self.counts[name])))
                self._passes.append(backward_pass)

            return enter

        def leave(module: torch.nn.Module) -> None:
            ending()
            self._ended = self.running.pop()
            self._passes.pop()

        def after(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            ended(self._ended, output)

        hooked = {p: m for p, m in model.named_modules() if not isinstance(m, torch.jit.ScriptModule)}
        for path, module in hooked.items():
            name = ".".join(part for part in path.split(".") if part not in WRAPPED)
            hooks.add_around_forward(module, before(name, module), leave)
        hooks.add_forward((module, after) for module in hooked.values())
