"""The base of debuggers that capture layers' outputs during the forward pass."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, ClassVar

from debuggers.base_debugger import BaseDebugger
from debuggers.host_arrays.readable import may_be_cloned
from debuggers.instrumentation.module_selection import Selector
from debuggers.instrumentation.quiet_computation import outside_modes
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id
from debuggers.utils import apply_tensor_op


class _ThreadState(threading.local):
    """The state of a debugger in one thread; copies and pickles of it are empty."""

    layer_name: str | None = None
    last_capture: Any = None

    def __reduce__(self) -> tuple[type[_ThreadState], tuple[()]]:
        return type(self), ()


class ForwardDebugger(BaseDebugger):
    """Captures what ``process_forward`` makes of a layer's output, or of the outputs of several layers.

    ``last_capture`` holds the result of the last call of a layer in this thread, or None before it. SequentialDebugger
    calls ``forward_hook_fn`` after each call, and sets ``last_capture`` back to None once it has taken the results.

    ``layer_name`` is the selector given to the constructor. While SequentialDebugger calls ``process_forward``,
    ``around_forward`` or the debugger itself, it is, in that thread, the plain name of the layer in question.

    Models may be evaluated in several threads at once. SequentialDebugger calls ``process_forward`` and
    ``around_forward`` in one thread at a time, and the debugger itself in several.

    ``returns_copies`` set to True promises that the tensors that ``process_forward`` returns share no memory with the
    model: they are then kept as they are, instead of being copied once more. It holds for the ``process_forward`` of
    the same class only: a subclass with one of its own has to promise it anew.
    """

    returns_copies: ClassVar[bool] = False

    def __init__(self, layer_name: Selector, missing_ok: bool = False) -> None:
        """Makes a debugger for one layer or several.

        Args:
            layer_name: The layer's dotted name in the model, without the names of wrappers such as those of
                DistributedDataParallel and ``torch.compile``; ``""`` is the model itself. Or for several layers: a
                pattern such as ``"backbone.layer*"`` (as in ``fnmatch``; ``*`` also matches dots), a regular
                expression that matches the whole name, ``"re:.*attn"`` or compiled, or a type of modules.
            missing_ok: A model without such a layer is accepted; the debugger then captures nothing.
        """
        self.layer_name: Any = layer_name
        self.missing_ok = missing_ok

    @property
    def layer_name(self) -> Any:
        """See the class."""
        here: _ThreadState | None = vars(self).get("_here")
        if here is not None and here.layer_name is not None:
            return here.layer_name
        if "_layer_name" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no layer_name: call ForwardDebugger.__init__")
        return vars(self)["_layer_name"]

    @layer_name.setter
    def layer_name(self, value: Any) -> None:
        vars(self)["_layer_name"] = value

    @property
    def last_capture(self) -> Any:
        """See the class."""
        return self._of_thread().last_capture

    @last_capture.setter
    def last_capture(self, value: Any) -> None:
        self._of_thread().last_capture = value

    @contextmanager
    def at_layer(self, name: str) -> Iterator[None]:
        """Lets ``layer_name`` be the plain name of a layer in this thread."""
        here = self._of_thread()
        before, here.layer_name = here.layer_name, name
        try:
            yield
        finally:
            here.layer_name = before

    def _of_thread(self) -> _ThreadState:
        found: _ThreadState = vars(self).setdefault(
            "_here", _ThreadState()
        )  # not in __init__, which a subclass may leave out
        return found

    @abstractmethod
    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> Any:
        """Returns the debug outputs for one call of the layer; gradients are off while it runs.

        Args:
            module: The layer.
            input: Its positional arguments, as a tuple.
            output: What it returned; not to be changed.
        """

    def around_forward(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any] | None:
        """Returns a context to be open while the layer's forward runs, or None; by default None.

        For debuggers that have to see what happens inside a forward. The context is left when the forward returns or
        raises, and before ``process_forward`` is called; calls may nest. An exception of the forward is handed to the
        context, which cannot hold it back. If the context itself fails, its call is captured as ``{"error": ...}``.

        Args:
            module: The layer.
            args: Its positional arguments; not to be changed.
            kwargs: Its keyword arguments; not to be changed.
        """
        return None

    def forward_hook_fn(self, module: torch.nn.Module, input: Any, output: Any) -> None:
        """A forward hook: keeps a copy of what ``process_forward`` returns in ``last_capture``.

        The copy is made at once, because a later layer may change the output in place; see also ``returns_copies``.
        """
        if is_recomputation():
            return
        with torch.no_grad(), outside_modes():
            capture = self.process_forward(module, input, output)
            self.last_capture = capture if _promises_copies(type(self)) else apply_tensor_op(_copied, capture)

    def __call__(self, datapoint: dict[str, Any], model: torch.nn.Module) -> Any:
        """Returns ``last_capture``."""
        return self.last_capture


@cache
def _promises_copies(cls: type[ForwardDebugger]) -> bool:
    owner = next(parent for parent in cls.__mro__ if "process_forward" in vars(parent))
    return bool(vars(owner).get("returns_copies", False))


def is_recomputation() -> bool:
    """Whether a backward pass runs: layers then run only to recompute what activation checkpointing dropped."""
    return backward_pass_id() != NO_BACKWARD_PASS


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone() if may_be_cloned(tensor) else tensor.detach()
