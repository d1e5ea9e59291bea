"""Watches the layers of a model for the forward debuggers of one SequentialDebugger."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from debuggers.forward_debugger import ForwardDebugger, is_recomputation
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import is_replica
from debuggers.wrappers.forward_contexts import ForwardContexts
from debuggers.wrappers.forward_passes import ForwardPass, ForwardPasses
from debuggers.wrappers.watched_debugger import WatchedDebugger


class LayerWatch:
    """The hooks of forward debuggers, while attached: they pass each call of a layer to its debuggers.

    A forward pass of the model forgets what an earlier one of its thread left; see ``ForwardPasses``. Ignored are calls
    inside ``torch.compile``, calls that activation checkpointing repeats in the backward pass, and calls that a
    debugger itself makes.
    """

    def __init__(self, model: torch.nn.Module, watched: Sequence[WatchedDebugger]) -> None:
        self._models = list(_wrappers_and_model(model))
        self._watched = watched
        # In eval mode torch runs their layer by one kernel, which calls none of them unless one has a hook of torch's.
        self._fusible = {
            id(inner)
            for outer in model.modules()
            if isinstance(outer, torch.nn.TransformerEncoderLayer)
            for inner in outer.modules()
            if inner is not outer
        }
        self._hooks = Hooks()
        self._here = _Thread()
        self._passes = ForwardPasses(one.name for one in watched)

    @property
    def debuggers(self) -> dict[str, list[ForwardDebugger]]:
        """The debuggers of each layer, by the layer's name."""
        found: dict[str, list[ForwardDebugger]] = {}
        for watched in self._watched:
            for layer in watched.watched.layers:
                found.setdefault(layer.name, []).append(watched.debugger)
        return found

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The other names of the watched layers that have several."""
        layers = (layer for watched in self._watched for layer in watched.watched.layers)
        return {layer.name: layer.aliases for layer in layers if layer.aliases}

    def attach(self) -> None:
        """Adds the hooks to the model: all of them, or none if one cannot be added."""
        if not self._watched:
            return
        try:
            for model in self._models:
                self._hooks.add_around_forward(model, self._begin_pass, self._end_pass)
            for watched in self._watched:
                self._attach(watched)
        except BaseException:
            self._hooks.remove()
            raise

    def detach(self) -> None:
        """Removes the hooks, and forgets what is captured."""
        self._hooks.remove()
        self._here.contexts.leave_all()
        self._passes.end_all()

    @contextmanager
    def taken(self) -> Iterator[ForwardPass]:
        """Yields the pass of this thread, ignores calls of layers in it meanwhile, and drops the pass."""
        with self._passes.paused() as of_pass:
            try:
                yield of_pass
            finally:
                of_pass.forget()

    def _attach(self, watched: WatchedDebugger) -> None:
        for layer in watched.watched.layers:
            if layer.opaque:
                continue
            if id(layer.module) in self._fusible:
                self._hooks.add_separation(layer.module)
            if watched.has_contexts:
                enter, leave = partial(self._enter, watched, layer.name), partial(self._leave, watched, layer.name)
                self._hooks.add_around_forward(layer.module, enter, leave)
            self._hooks.add_forward([(layer.module, partial(self._capture, watched, layer.name))])

    def _begin_pass(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if self._ignores():
            return
        if is_replica(module):
            return
        here = self._passes.here()
        here.is_evaluating = True
        here.depth += 1
        if here.depth == 1:
            self._here.contexts.leave_all()
            here.forget()

    def _end_pass(self, module: torch.nn.Module) -> None:
        if not self._ignores() and not is_replica(module):
            here = self._passes.here()
            here.depth = max(0, here.depth - 1)

    def _enter(
        self, watched: WatchedDebugger, layer: str, module: torch.nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> None:
        if not self._ignores():
            self._here.failures.pop((watched.name, layer), None)
            of_pass = self._passes.of_call(layer, module)
            with self._here.working():
                watched.enter(self._here.contexts, of_pass, layer, module, args, kwargs)

    def _leave(self, watched: WatchedDebugger, layer: str, module: torch.nn.Module) -> None:
        if not self._ignores():
            with self._here.working():
                self._here.failures[watched.name, layer] = watched.leave(self._here.contexts, layer)

    def _capture(self, watched: WatchedDebugger, layer: str, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not self._ignores():
            failure = self._here.failures.pop((watched.name, layer), None)
            of_pass = self._passes.of_call(layer, module)
            if of_pass is not None:
                with self._here.working():
                    watched.capture(of_pass, layer, module, inputs, output, failure=failure)

    def _ignores(self) -> bool:
        # torch.compile evaluates this while it traces: what it compiles captures nothing, and no graph breaks here.
        if torch.compiler.is_compiling() or self._here.is_working or is_recomputation():
            return True
        return self._passes.here().pauses > 0


class _Thread(threading.local):
    """What belongs to one thread: open contexts, what failed in the last ones, and whether a debugger works in it."""

    def __init__(self) -> None:
        self.contexts = ForwardContexts()
        self.failures: dict[tuple[str, str], Any] = {}
        self.is_working = False

    @contextmanager
    def working(self) -> Iterator[None]:
        self.is_working = True
        try:
            yield
        finally:
            self.is_working = False


def _wrappers_and_model(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yields the wrappers of data parallelism from the outside in, and the model: any of them may be called."""
    while isinstance(model, WRAPPERS):
        yield model
        model = model.module
    if not isinstance(model, torch.jit.ScriptModule):  # which takes no such hooks
        yield model
