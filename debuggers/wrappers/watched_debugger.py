"""A forward debugger with its layers: passes it their calls one by one, and returns its captures."""

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from tracker_adapters.wording import some_of

from debuggers.forward_debugger import ForwardDebugger
from debuggers.instrumentation.isolation import Isolation, describe
from debuggers.instrumentation.module_selection import NamedModule, selector_text
from debuggers.torch_import import torch
from debuggers.wrappers.forward_contexts import ForwardContexts
from debuggers.wrappers.forward_passes import ForwardPass
from debuggers.wrappers.isolated_debugger import IsolatedDebugger
from debuggers.wrappers.layer_captures import MAX_CALLS, Captures, WatchedLayers

_NOT_RUN = (
    "the layer did not run in this thread since its previous datapoint, or ran in a fused or compiled path that calls "
    "no hook"
)
_OPAQUE = "the layer runs inside a module that torch.compile or torch.jit compiled, where no forward hook is called"
_UNSURE = (
    "it was called in a thread that never called the model itself, while several forward passes or debuggers were "
    "running: the call cannot be attributed"
)
_SHOWN = 5


class WatchedDebugger(IsolatedDebugger):
    """A forward debugger with its layers; the hooks on them may call it from any thread.

    Attributes:
        debugger: The debugger.
        watched: The layers that it watches.
        has_contexts: Whether the debugger has contexts to be open while its layers run.
        skipped_calls: Calls beyond ``MAX_CALLS`` of one layer in one forward pass.
    """

    debugger: ForwardDebugger

    def __init__(
        self,
        name: str,
        debugger: ForwardDebugger,
        isolation: Isolation,
        watched: WatchedLayers,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(name, debugger, isolation)
        self.watched = watched
        self.skipped_calls = 0
        self.has_contexts = type(debugger).around_forward is not ForwardDebugger.around_forward
        self._warn = warn
        self._lock = threading.RLock()

    def enter(
        self,
        contexts: ForwardContexts,
        of_pass: ForwardPass | None,
        layer: str,
        *call: Any,
    ) -> None:
        """Opens the debugger's context for a call of a layer that begins.

        Args:
            contexts: Where to.
            of_pass: Which pass the call belongs to; None is a call to leave alone.
            layer: The layer's name.
            call: The module, its positional and its keyword arguments.
        """
        has_room = of_pass is not None and of_pass.captures[self.name].has_room(layer)
        make = partial(self.debugger.around_forward, *call) if has_room else None
        with self._lock, self.debugger.at_layer(layer):
            contexts.enter((self.name, layer), self.attempt, make)

    def leave(self, contexts: ForwardContexts, layer: str) -> Any:
        """Leaves it when the call ends, and returns what failed in it, or None."""
        with self._lock, self.debugger.at_layer(layer):
            return contexts.leave((self.name, layer))

    def capture(
        self,
        of_pass: ForwardPass,
        layer: str,
        module: torch.nn.Module,
        inputs: Any,
        output: Any,
        *,
        failure: Any = None,
    ) -> None:
        """Captures a call of a layer that has returned; ``failure`` is what failed in its context, or None."""
        captures = of_pass.captures[self.name]
        name = captures.count_call(layer)
        if name is None:
            self._skip(layer)
            return
        with self._lock, self.debugger.at_layer(layer):
            self.debugger.last_capture = None
            if failure is None:
                failure = self.attempt(self.debugger.forward_hook_fn, module, inputs, output)
            if failure is not None:
                self.debugger.last_capture = failure
            captures.keep(name, layer, self.debugger.last_capture)

    def outputs(self, datapoint: dict[str, Any], model: torch.nn.Module, of_pass: ForwardPass) -> Any:
        """Returns the slot of the debugger: one capture, or several by name; what was captured is forgotten."""
        if not self.watched.layers:
            return {"error": f"the model has no layer {selector_text(self.debugger.layer_name)}"}
        slot = Captures()
        taken = of_pass.captures[self.name].take()
        for name, (layer, capture) in taken.items():
            if layer not in of_pass.unsure:
                with self.debugger.at_layer(layer):
                    self.debugger.last_capture = capture
                    slot[name] = self.attempt(self.debugger, datapoint, model)
        self.debugger.last_capture = None
        seen = {layer for layer, _ in taken.values()}
        missing = [layer for layer in self.watched.layers if layer.name not in seen or layer.name in of_pass.unsure]
        if missing:
            slot.update(self._nothing(missing, of_pass.unsure))
        return next(iter(slot.values())) if self.watched.by_name and len(slot) == 1 else slot

    def _skip(self, layer: str) -> None:
        with self._lock:
            self.skipped_calls += 1
            is_first = self.skipped_calls == 1
        if is_first:
            self._warn(
                f"{self.place}: {layer!r} was called more than {MAX_CALLS} times in one forward pass; "
                "further calls are not captured, only counted"
            )

    def _nothing(self, missing: list[NamedModule], unsure: Collection[str]) -> dict[str, dict[str, str]]:
        """Records that layers were not captured, all at once, and returns the slot of each."""
        reasons = {
            layer.name: "captured nothing: "
            + (_OPAQUE if layer.opaque else _UNSURE if layer.name in unsure else _NOT_RUN)
            for layer in missing
        }
        parts = []
        for reason in dict.fromkeys(reasons.values()):
            names = [name for name in reasons if reasons[name] == reason]
            layers = "" if self.watched.by_name else f" ({some_of(names, _SHOWN)})"
            parts.append(f"{reason}{layers}")
        self.fail(LookupError("; ".join(parts)))
        return {name: {"error": describe(LookupError(reason))} for name, reason in reasons.items()}
