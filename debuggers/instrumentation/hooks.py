"""The only place where hooks of torch, and observers of modules, are registered and removed."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

from debuggers.instrumentation import compiled_code
from debuggers.instrumentation.call_observers import Observer
from debuggers.instrumentation.compiled_code import graph_must_be_whole, never_compiled, uncompiled
from debuggers.instrumentation.inner_steps import is_inner_step
from debuggers.instrumentation.joined_optimizers import rounds_of
from debuggers.instrumentation.optimizer_rounds import RoundHandle
from debuggers.torch_import import torch

HookFunction = Callable[[torch.nn.Module, Any, Any], None]
OutputFunction = Callable[[Any], Any]
ArgumentsFunction = Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]
ChangeFunction = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
ModuleFunction = Callable[[torch.nn.Module], None]
GradientFunction = Callable[[torch.Tensor], None]
OptimizerFunction = Callable[[torch.optim.Optimizer], None]


class _Hook:
    """A hook that copies of its module, tensor or optimizer do not call; pickles are read without this package."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, str]]:
        # A method that takes anything and returns None.
        return getattr, (nullcontext(), "__exit__")


class OutputHook(_Hook):
    """Replaces a module's output by the result of a function of it."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        """Called by torch after the module's forward."""
        return self._function(output)


class SeparateHook(_Hook):
    """Does nothing; its presence keeps torch from a fused kernel that would not call the module."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward."""


class ArgumentsHook(_Hook):
    """Replaces a module's arguments by the result of a function of them."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """Called by torch before the module's forward."""
        return self._function(args, kwargs)


class ChangeEndHook(_Hook):
    """Calls a function when a module's forward ends."""

    __slots__ = ()

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called by torch after the module's forward, or when that raised."""
        self._function()


class GradientHook(_Hook):
    """Passes the gradient with respect to a tensor to a function, and never changes it."""

    __slots__ = ()
    # Tells torch not to warn that the hook is left out when the tensor is saved.
    __torch_unserializable__ = True

    @never_compiled
    def __call__(self, gradient: torch.Tensor) -> None:
        """Called by torch in the backward pass, once the gradient is complete."""
        if not (torch.compiler.is_compiling() and graph_must_be_whole()):
            uncompiled(self._function, gradient)


class OptimizerHook(_Hook):
    """Calls a function with an optimizer before or after its step, and never changes the step's arguments.

    Nested steps are left out; see ``inner_steps``.
    """

    __slots__ = ()

    @never_compiled
    def __call__(self, optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
        """Called by torch around ``optimizer.step``; where that is compiled, between two graphs."""
        if torch.compiler.is_compiling():
            if graph_must_be_whole():
                return
        elif is_inner_step(optimizer):
            return
        uncompiled(self._function, optimizer)


class GradientsReadyHook(_Hook):
    """Calls a function with an optimizer once a step, when its gradients are complete and its weights unchanged.

    That is before the step, or where it is given a closure, when the closure has returned for the first time.
    """

    __slots__ = ()

    @never_compiled
    def __call__(self, optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> Any:
        """Called by torch before ``optimizer.step``; gives it a closure that does what the caller's does."""
        if torch.compiler.is_compiling():
            if graph_must_be_whole():
                return None
        elif is_inner_step(optimizer):
            return None
        closure = keywords.get("closure", arguments[1] if len(arguments) > 1 else None)
        ready = partial(uncompiled, self._function, optimizer)
        if not callable(closure):
            return ready()
        notifying = _NotifyingClosure(closure, ready)
        if "closure" in keywords:
            return arguments, {**keywords, "closure": notifying}
        return (arguments[0], notifying, *arguments[2:]), keywords


class _NotifyingClosure:
    """A closure that calls a function when it has returned for the first time."""

    __slots__ = ("_closure", "_function")

    def __init__(self, closure: Callable[[], Any], function: Callable[[], object]) -> None:
        self._closure = closure
        self._function: Callable[[], object] | None = function

    @never_compiled
    def __call__(self) -> Any:
        result = self._closure()
        function, self._function = self._function, None
        if function is not None:
            function()
        return result


class Hooks:
    """The hooks of one owner. The handles are kept here, never in the model; ``remove`` removes all of them.

    Of optimizers that were joined, a step is a round of theirs, which who watches them tells them of.

    As a context manager it removes them when the block ends, also after an exception.
    """

    def __init__(self) -> None:
        self._handles: list[torch.utils.hooks.RemovableHandle | Observer | RoundHandle] = []

    def add_forward(self, hooks: Iterable[tuple[torch.nn.Module, HookFunction]]) -> list[Observer]:
        """Registers a function for the output of each module: all of them, or none if one cannot be registered.

        It is called after the module's other hooks, with the output that the caller gets. Returns what ``put_back``
        takes.
        """
        added: list[Observer] = []
        try:
            for module, function in hooks:
                added.append(Observer(module, "output", function))
        except BaseException:
            for handle in added:
                handle.remove()
            raise
        self._handles += added
        return added

    def put_back(self, observers: Iterable[Observer]) -> None:
        """Registers observers again that were removed."""
        compiled_code.prepare()
        for observer in observers:
            self._handles.append(observer)
            observer.put_back()

    def add_separation(self, module: torch.nn.Module) -> None:
        """Has ``TransformerEncoderLayer`` call a module inside of it in eval mode, too, where a fused kernel would not.

        That may change the last bits of what it computes.
        """
        self._handles.append(module.register_forward_hook(SeparateHook()))

    def add_output(self, module: torch.nn.Module, function: OutputFunction) -> None:
        """Registers a function whose result takes the place of a module's output, for a model that is run aside."""
        self._handles.append(module.register_forward_hook(OutputHook(function)))

    def add_before_forward(self, module: torch.nn.Module, function: ArgumentsFunction) -> Observer:
        """Registers a function that is called before a module's forward and its other hooks; see ``put_back``."""
        self._handles.append(observer := Observer(module, "begin", function))
        return observer

    def add_around_forward(self, module: torch.nn.Module, before: ArgumentsFunction, after: ModuleFunction) -> None:
        """Registers a function that is called before a module's forward, and one right after it, also if it raises.

        Of several pairs on one module the first is the outermost. ``after`` runs before the functions of
        ``add_forward``.
        """
        self._handles.append(Observer(module, "begin", before))
        self._handles.append(Observer(module, "end", after))

    def add_change(self, module: torch.nn.Module, change: ChangeFunction, after: Callable[[], None]) -> None:
        """Registers a function that changes a module's arguments, and one that is called when its forward ends.

        For what is to change the training. ``unobserved`` leaves these alone: a replay is to run as the step did.
        """
        self._handles.append(module.register_forward_pre_hook(ArgumentsHook(change), with_kwargs=True))
        self._handles.append(module.register_forward_hook(ChangeEndHook(after), prepend=True, always_call=True))

    def add_gradient(self, tensor: torch.Tensor, function: GradientFunction) -> None:
        """Registers a function for the gradient with respect to a tensor that requires one.

        The gradient is that of the tensor's value as it is now, also if an operation changes it in place later.
        """
        compiled_code.prepare()
        self._handles.append(tensor.register_hook(GradientHook(function)))  # type: ignore[no-untyped-call]

    def add_optimizer_pre_step(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function that ``optimizer.step`` calls first; an exception in it keeps the step from running."""
        compiled_code.prepare()
        if (rounds := rounds_of(optimizer)) is not None:
            self._handles.append(rounds.on_begin(function))
            return
        self._handles.append(optimizer.register_step_pre_hook(OptimizerHook(function)))

    def add_gradients_ready(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function that is called once in each step, when the gradients that it uses are there.

        It runs inside ``optimizer.step``: first, or after the first call of the closure that the caller gave.
        """
        compiled_code.prepare()
        if (rounds := rounds_of(optimizer)) is not None:
            self._handles.append(rounds.on_begin(function))
            return
        self._handles.append(optimizer.register_step_pre_hook(GradientsReadyHook(function)))

    def add_before_each_step(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function for the steps of joined optimizers that come before the last one of a round.

        It is called with the optimizer, when its gradients are there and before it changes its weights.
        """
        if (rounds := rounds_of(optimizer)) is not None:
            self._handles.append(rounds.on_keep(function))

    def add_optimizer_post_step(self, optimizer: torch.optim.Optimizer, function: OptimizerFunction) -> None:
        """Registers a function that ``optimizer.step`` calls last."""
        compiled_code.prepare()
        if (rounds := rounds_of(optimizer)) is not None:
            self._handles.append(rounds.on_end(function))
            return
        self._handles.append(optimizer.register_step_post_hook(OptimizerHook(function)))

    def add_any_optimizer_step(self, function: OptimizerFunction) -> None:
        """Registers a function that the ``step`` of each optimizer of the process calls first, before its own hooks.

        Hooks that it adds to the optimizer are called in the same step.
        """
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        compiled_code.prepare()
        self._handles.append(register_optimizer_step_pre_hook(OptimizerHook(function)))

    def remove(self) -> None:
        """Removes every hook; calling it again does nothing."""
        while self._handles:
            self._handles.pop().remove()

    def __len__(self) -> int:
        return len(self._handles)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
