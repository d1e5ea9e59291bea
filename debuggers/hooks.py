"""The only place where torch hooks are registered and removed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from debuggers.torch_import import torch

HookFunction = Callable[[torch.nn.Module, Any, Any], None]
OutputFunction = Callable[[Any], Any]
ArgumentsFunction = Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]
ChangeFunction = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
ModuleFunction = Callable[[torch.nn.Module], None]
GradientFunction = Callable[[torch.Tensor], None]
OptimizerFunction = Callable[[torch.optim.Optimizer], None]


def _nothing(*_: Any) -> None:
    """The function of a hook's copy."""


class _Hook:
    """A hook that can be pickled and copied with what it hangs on. The copy does nothing: it belongs to no debugger."""

    __slots__ = ("_function", "_silent_in")
    observes: ClassVar[bool] = True
    """Whether the model computes the same without it."""

    def __init__(self, function: Callable[..., Any] = _nothing) -> None:
        self._function = function
        self._silent_in: tuple[int, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the hook does anything in this thread."""
        return not self._silent_in or threading.get_ident() not in self._silent_in

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class ForwardHook(_Hook):
    """Hands a module's input and output to a function, and never changes the output."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward."""
        if self.is_active:
            self._function(module, inputs, output)


class OutputHook(_Hook):
    """Puts what a function makes of a module's output in the output's place."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        """Called by torch after the module's forward."""
        return self._function(output) if self.is_active else None


class ForwardPreHook(_Hook):
    """Hands a module to a function before its forward, and never changes the input."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        """Called by torch before the module's forward."""
        if self.is_active:
            self._function(module)


class ForwardArgumentsHook(_Hook):
    """Hands a module and all its arguments to a function before its forward, and never changes them."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Called by torch before the module's forward."""
        if self.is_active:
            self._function(module, args, kwargs)


class ArgumentsHook(_Hook):
    """Puts what a function makes of a module's arguments in their place."""

    __slots__ = ()
    observes = False

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """Called by torch before the module's forward."""
        return self._function(args, kwargs) if self.is_active else None


class ChangeEndHook(_Hook):
    """Calls a function when a module's forward ends."""

    __slots__ = ()
    observes = False

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward, or when that raised."""
        if self.is_active:
            self._function()


class ForwardEndHook(_Hook):
    """Hands a module to a function when its forward ends, and never changes the output."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward, or when that raised."""
        if self.is_active:
            self._function(module)


class GradientHook(_Hook):
    """Hands the gradient with respect to a tensor to a function, and never changes it."""

    __slots__ = ()
    # Tells torch not to warn that the hook is left out when the tensor is saved.
    __torch_unserializable__ = True

    def __call__(self, gradient: torch.Tensor) -> None:
        """Called by torch in the backward pass, once the gradient is complete."""
        if self.is_active:
            self._function(gradient)


class OptimizerHook(_Hook):
    """Hands an optimizer to a function before or after its step, and never changes the step's arguments."""

    __slots__ = ()

    def __call__(self, optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
        """Called by torch around ``optimizer.step``."""
        if self.is_active:
            self._function(optimizer)


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

    def add_output(self, module: torch.nn.Module, function: OutputFunction) -> None:
        """Registers a function whose result takes the place of a module's output, for a model that is run aside."""
        self._handles.append(module.register_forward_hook(OutputHook(function)))

    def add_forward_pre(self, module: torch.nn.Module, function: ModuleFunction) -> None:
        """Registers a function that is called before a module's forward."""
        self._handles.append(module.register_forward_pre_hook(ForwardPreHook(function)))

    def add_around_forward(self, module: torch.nn.Module, before: ArgumentsFunction, after: ModuleFunction) -> None:
        """Registers a function that is called before a module's forward, and one right after it, also if it raises.

        Of several pairs on one module the first is the outermost. ``after`` runs before all other forward hooks. It
        does not run when something that is no ``Exception`` ends the forward, such as KeyboardInterrupt.
        """
        self._handles.append(module.register_forward_pre_hook(ForwardArgumentsHook(before), with_kwargs=True))
        self._handles.append(module.register_forward_hook(ForwardEndHook(after), prepend=True, always_call=True))

    def add_change(self, module: torch.nn.Module, change: ChangeFunction, after: Callable[[], None]) -> None:
        """Registers a function that changes a module's arguments, and one that is called when its forward ends.

        For what is to change the training. ``silenced`` leaves these alone: a replay is to run as the step did.
        """
        self._handles.append(module.register_forward_pre_hook(ArgumentsHook(change), with_kwargs=True))
        self._handles.append(module.register_forward_hook(ChangeEndHook(after), prepend=True, always_call=True))

    def add_gradient(self, tensor: torch.Tensor, function: GradientFunction) -> None:
        """Registers a function for the gradient with respect to a tensor that requires one.

        The gradient is that of the tensor's value as it is now, also if an operation changes it in place later.
        """
        self._handles.append(tensor.register_hook(GradientHook(function)))  # type: ignore[no-untyped-call]

    def add_optimizer_pre_step(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function that ``optimizer.step`` calls first; an exception in it keeps the step from running."""
        self._handles.append(optimizer.register_step_pre_hook(OptimizerHook(function)))

    def add_optimizer_post_step(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function that ``optimizer.step`` calls last."""
        self._handles.append(optimizer.register_step_post_hook(OptimizerHook(function)))

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


@contextmanager
def silenced(model: torch.nn.Module) -> Iterator[None]:
    """Keeps all hooks that were registered here to observe a model from doing anything in this thread meanwhile.

    One thread at a time may be in such a block of a model.
    """
    found: Iterator[Any] = (
        hook
        for module in model.modules()
        for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    )
    hooks = [hook for hook in found if isinstance(hook, _Hook) and hook.observes]
    here = threading.get_ident()
    for hook in hooks:
        hook._silent_in = (*hook._silent_in, here)
    try:
        yield
    finally:
        for hook in hooks:
            threads = list(hook._silent_in)
            threads.remove(here)
            hook._silent_in = tuple(threads)
