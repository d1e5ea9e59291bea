"""A forward debugger at its layers: hands it their calls one by one, and makes its slot of what it captured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from debuggers.forward_contexts import ForwardContexts
from debuggers.forward_debugger import ForwardDebugger
from debuggers.isolation import Isolation, describe
from debuggers.layer_captures import MAX_CALLS, Captures, LayerCaptures
from debuggers.module_selection import selector_text
from debuggers.torch_import import torch
from debuggers.wrappers.isolated_debugger import IsolatedDebugger

_NOT_RUN = "the layer did not run since the previous datapoint, or ran in a fused or compiled path that calls no hook"
_OPAQUE = "the layer runs inside a module that torch.compile or torch.jit compiled, where no forward hook is called"
_SHOWN = 5


class WatchedDebugger(IsolatedDebugger):
    """A forward debugger with its layers; the hooks on them may call it from any thread.

    Attributes:
        debugger: The debugger.
        captures: What was captured in the current forward pass.
        has_contexts: Whether the debugger has contexts to be open while its layers run.
    """

    debugger: ForwardDebugger

    def __init__(
        self,
        name: str,
        debugger: ForwardDebugger,
        isolation: Isolation,
        captures: LayerCaptures,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(name, debugger, isolation)
        self.captures = captures
        self.has_contexts = type(debugger).around_forward is not ForwardDebugger.around_forward
        self._warn = warn
        self._lock = threading.RLock()

    def enter(
        self,
        contexts: ForwardContexts,
        layer: str,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Opens the debugger's context for a call of a layer that begins."""
        make = partial(self.debugger.around_forward, module, args, kwargs) if self.captures.has_room(layer) else None
        with self._at(layer):
            contexts.enter((self.name, layer), self.attempt, make)

    def leave(self, contexts: ForwardContexts, layer: str) -> Any:
        """Leaves it when the call ends, and returns what failed in it, or None."""
        with self._at(layer):
            return contexts.leave((self.name, layer))

    def capture(self, layer: str, module: torch.nn.Module, inputs: Any, output: Any, failure: Any = None) -> None:
        """Captures a call of a layer that has returned; ``failure`` is what failed in its context, or None."""
        name = self.captures.count_call(layer)
        if name is None:
            if self.captures.skipped_calls == 1:
                self._warn(
                    f"{self.place}: {layer!r} was called more than {MAX_CALLS} times in one forward pass; "
                    "further calls are not captured, only counted"
                )
            return
        with self._at(layer):
            self.debugger.last_capture = None
            if failure is None:
                failure = self.attempt(self.debugger.forward_hook_fn, module, inputs, output)
            if failure is not None:
                self.debugger.last_capture = failure
            self.captures.keep(name, layer, self.debugger.last_capture)

    def outputs(self, datapoint: dict[str, Any], model: torch.nn.Module) -> Any:
        """Returns the slot of the debugger: one capture, or several by name; what was captured is forgotten."""
        if not self.captures.layers:
            return {"error": f"the model has no layer {selector_text(self.debugger.layer_name)}"}
        slot = Captures()
        missing = {layer.name: layer for layer in self.captures.layers}
        for name, (layer, capture) in self.captures.take().items():
            missing.pop(layer, None)
            with self._at(layer):
                self.debugger.last_capture = capture
                slot[name] = self.attempt(self.debugger, datapoint, model)
        self.debugger.last_capture = None
        if missing:
            slot.update(self._nothing({name: layer.opaque for name, layer in missing.items()}))
        return next(iter(slot.values())) if self.captures.by_name and len(slot) == 1 else slot

    def _nothing(self, missing: dict[str, bool]) -> dict[str, dict[str, str]]:
        """Records that layers were not captured, all at once, and returns the slot of each."""
        reasons = {name: f"captured nothing: {_OPAQUE if opaque else _NOT_RUN}" for name, opaque in missing.items()}
        parts = []
        for reason in dict.fromkeys(reasons.values()):
            names = [name for name in reasons if reasons[name] == reason]
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            layers = "" if self.captures.by_name else f" ({', '.join(names[:_SHOWN])}{more})"
            parts.append(f"{reason}{layers}")
        self.fail(LookupError("; ".join(parts)))
        return {name: {"error": describe(LookupError(reason))} for name, reason in reasons.items()}

    @contextmanager
    def _at(self, layer: str) -> Iterator[None]:
        """Gives the debugger the plain name of a layer, and keeps other threads from it meanwhile."""
        with self._lock:
            given, self.debugger.layer_name = self.debugger.layer_name, layer
            try:
                yield
            finally:
                self.debugger.layer_name = given
