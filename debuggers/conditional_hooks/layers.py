"""Observes the layers of a model for hooks, only at the steps at which a hook may act."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from debuggers.conditional_hooks.registered import RegisteredHook
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_changes import ModuleMembers
from debuggers.instrumentation.training_pass import holds_values
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id
from debuggers.utils import tensors_in

Look = Callable[[RegisteredHook, str, torch.Tensor, bool], object]
"""Takes a hook, a layer's name, a tensor, and whether it is an output."""
_log = logging.getLogger(__name__)


class HookedLayers:
    """Calls a function with the outputs, or gradients with respect to outputs, of the layers of hooks.

    Attributes:
        step: The step to which calls belong.
        isolation: Keeps what fails out of the model's forward.
    """

    def __init__(self, model: torch.nn.Module, look: Look, isolation: Isolation) -> None:
        self.step = 0
        self.isolation = isolation
        self._model, self._look = model, look
        self._hooks, self._gradient_hooks = Hooks(), Hooks()
        self._attached: list[RegisteredHook] = []
        self._members: ModuleMembers | None = None
        self._told: set[str] = set()

    def check(self, entry: RegisteredHook) -> None:
        """Finds the layers of a hook.

        Raises:
            LayerNotFoundError: When a pattern matches nothing.
        """
        found = entry.hook.patterns.modules(self._model)
        entry.layers = tuple(named.name for named in found if not named.opaque)
        if not entry.layers:
            _log.warning(
                "hook %r sees no output: %s and its other matches run inside compiled code",
                entry.hook.name,
                found[0].name,
            )

    def attach(self, entries: Sequence[RegisteredHook], step: int) -> None:
        """Observes a step for these hooks and no others, from the next call of a layer on."""
        self.step = step
        self._gradient_hooks.remove()
        same = len(entries) == len(self._attached) and all(map(lambda a, b: a is b, entries, self._attached))
        if same and (not entries or (self._members is not None and not self._members.have_changed())):
            return
        self.detach()
        if not entries:
            return
        self._members = ModuleMembers(self._model)
        for entry in entries:
            layers = [named for named in entry.hook.patterns.present_modules(self._model) if not named.opaque]
            entry.layers = tuple(named.name for named in layers)
            self._hooks.add_forward((named.module, _LayerCall(entry, named.name, self)) for named in layers)
        self._attached = list(entries)

    def detach(self) -> None:
        """Observes nothing any more."""
        self._hooks.remove()
        self._gradient_hooks.remove()
        self._attached, self._members = [], None

    def see_output(self, entry: RegisteredHook, name: str, output: Any) -> None:
        """Takes the output of a layer's call; each tensor in it is ``<layer>``, or ``<layer>.<index>`` of several."""
        tensors = [output] if isinstance(output, torch.Tensor) else tensors_in(output)
        for index, tensor in enumerate(tensors):
            called = name if len(tensors) == 1 else f"{name}.{index}"
            if entry.is_forward:
                self._look(entry, called, tensor, True)
            elif tensor.requires_grad and not tensor.is_inference():
                self._gradient_hooks.add_gradient(tensor, partial(self._see_gradient, entry, called))

    def _see_gradient(self, entry: RegisteredHook, name: str, gradient: torch.Tensor) -> None:
        with self.isolation.guard(f"hook {entry.hook.name!r}"):
            self._look(entry, name, gradient, False)


class _LayerCall:
    """What is called after a layer's forward, for one hook."""

    __slots__ = ("_bounds", "_entry", "_layers", "_name", "_place")

    def __init__(self, entry: RegisteredHook, name: str, layers: HookedLayers) -> None:
        self._entry, self._name, self._layers = entry, name, layers
        condition = entry.hook.condition
        self._bounds = condition.bounds if condition is not None and entry.is_forward else None
        self._place = f"hook {entry.hook.name!r}"

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called after the module's forward; first comes what is cheap, because most calls end there."""
        layers = self._layers
        if not self._entry.may_act(layers.step):
            return
        # Not what activation checkpointing repeats, nor what has no values.
        if backward_pass_id() != NO_BACKWARD_PASS or not holds_values():
            return
        with layers.isolation.guard(self._place):
            if self._bounds is not None and not self._bounds.may_hold(output):
                return
            layers.see_output(self._entry, self._name, output)
