"""Keeps the forward passes of several threads apart: each thread's captures are its own."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from debuggers.torch_import import torch
from debuggers.torch_internals.modules import is_replica
from debuggers.wrappers.layer_captures import LayerCaptures


class ForwardPass:
    """The state of the current forward pass of one thread.

    Attributes:
        captures: Those of each debugger, by its name.
        depth: How many calls of the model are open: it may call itself, and a wrapper calls what it wraps.
        pauses: How many blocks are open in which the thread's calls of layers are not captured.
        is_evaluating: Whether the thread has run the model or taken captures: calls of layers in it are its own.
        unsure: The layers with a call that may belong to this pass, or to another.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.captures = {name: LayerCaptures() for name in names}
        self.depth = 0
        self.pauses = 0
        self.is_evaluating = False
        self.unsure: set[str] = set()

    def forget(self) -> None:
        """Drops what was captured."""
        for captures in self.captures.values():
            captures.take()
        self.unsure = set()


class ForwardPasses:
    """The forward passes of all threads.

    A call of a layer belongs to the pass of its thread. One in a thread that never ran the model itself, as those that
    ``torch.nn.DataParallel`` or a model of the user's starts, belongs to the only pass that is open; with several open,
    or debuggers at work that may run the model again, it belongs to none, and the layer is left out of all of them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._here = _ThreadState()
        self._lock = threading.Lock()
        # Weakly: what a thread leaves goes with it.
        self._all: WeakSet[ForwardPass] = WeakSet()

    def here(self) -> ForwardPass:
        """Returns the pass of this thread."""
        found = self._here.found
        if found is None:
            found = self._here.found = ForwardPass(self._names)
            with self._lock:
                self._all.add(found)
        return found

    def of_call(self, layer: str, module: torch.nn.Module) -> ForwardPass | None:
        """Returns the pass that a call of a layer in this thread belongs to, or None."""
        own = self.here()
        if own.is_evaluating and not is_replica(module):
            return own
        with self._lock:
            others = [other for other in self._all if other is not own]
        running = [other for other in others if other.depth]
        if not running:
            return None if is_replica(module) else own
        if len(running) == 1 and not any(other.pauses for other in others):
            return running[0]
        for other in running:
            other.unsure.add(layer)
        return None

    @contextmanager
    def paused(self) -> Iterator[ForwardPass]:
        """Ends the pass of this thread and yields it; calls of layers in this thread are not captured meanwhile."""
        here = self.here()
        here.is_evaluating = True
        here.pauses += 1
        try:
            yield here
        finally:
            here.pauses -= 1
            here.depth = 0

    def end_all(self) -> None:
        """Ends the passes of all threads, and drops what was captured."""
        with self._lock:
            passes = list(self._all)
        for one in passes:
            one.depth = 0
            one.forget()


class _ThreadState(threading.local):
    found: ForwardPass | None = None
