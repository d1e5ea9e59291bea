"""Calls functions at the calls of a module, and leaves nothing in it that a copy, a file or a compiler would keep."""

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, cast

from debuggers.instrumentation import compiled_code
from debuggers.instrumentation.compiled_code import never_compiled, uncompiled
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import COMPILED_CALL, PLAIN_CALL, is_replica, keep_out_of_scripts

Event: TypeAlias = Literal["begin", "end", "output"]
"""``begin``: function(module, args, kwargs), before the forward and all its hooks. ``end``: function(module), after it,
also when it raised. ``output``: function(module, args, output), with what the caller gets."""

never_compiled(is_replica)  # dynamo would trace what a skipped function calls


class Observer:
    """A function that is called at an event of a module's calls until ``remove``, and again from ``put_back`` on.

    Attributes:
        function: What is called.
        silent_in: The threads in which it is not.
    """

    __slots__ = ("_call", "_event", "_given", "function", "silent_in")

    def __init__(self, module: torch.nn.Module, event: Event, function: Callable[..., None]) -> None:
        compiled_code.prepare()
        # A class without annotations gives torch.jit those of torch.nn.Module, and torch.jit cannot express this one.
        keep_out_of_scripts(COMPILED_CALL)
        self._event, self._given, self.function = event, function, function
        self.silent_in: tuple[int, ...] = ()
        with _changing:
            # All observers of a module share one, also those added during a call whose observers were all removed.
            self._call = _known_call(module) or _ObservedCall(module)
            self._call.observers[event][self] = None
            self._call.install(module)

    def remove(self) -> None:
        """Removes the function, from any thread; calling it again does nothing."""
        self.function = _nothing  # a call in progress in this or another thread may still reach this observer
        with _changing:
            self._call.observers[self._event].pop(self, None)
            self._call.uninstall_if_idle()

    def put_back(self) -> None:
        """Has the function called again after ``remove``, in a fifth of the time that a new observer takes.

        Does nothing for a module that is gone.
        """
        with _changing:
            module = self._call.module()
            if module is not None:
                self.function = self._given
                self._call.observers[self._event][self] = None
                self._call.install(module)


def _tell(observers: Iterable[Observer], *arguments: Any) -> None:
    """Calls the functions, but for those that are silent in this thread."""
    for observer in observers:
        if not observer.silent_in or threading.get_ident() not in observer.silent_in:
            observer.function(*arguments)


def _tell_of_return(call: "_ObservedCall", module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
    observers = call.observers
    if observers["end"]:
        _tell(reversed(tuple(observers["end"])), module)
    if observers["output"]:
        _tell(tuple(observers["output"]), module, args, output)


def _nothing(*arguments: Any) -> None:
    """What an observer calls that was removed."""


class _ObservedCall:
    """Takes the place of a module's ``_call_impl``, where ``torch.nn.Module.compile`` puts compiled code.

    A forward hook would stay in every copy of the module and in files, keep it from being scripted, switch off the
    fused path of ``TransformerEncoderLayer``, and have compiled code compiled anew. torch leaves out this place when it
    pickles and copies a module, and compiled code that contains the module never reads it. A copy has None
    there. What a user compiled in place is called as before.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = weakref.ref(module)
        _calls[id(module)] = self
        self._compiled: Callable[..., Any] | None = None
        # Dicts as ordered sets: their changes are atomic, also where a garbage collection interrupts one by another.
        self.observers: dict[Event, dict[Observer, None]] = {"begin": {}, "end": {}, "output": {}}

    @property
    def wraps_compiled_code(self) -> bool:
        return self._compiled is not None

    def is_of(self, module: torch.nn.Module) -> bool:
        return self.module() is module

    def install(self, module: torch.nn.Module) -> None:
        present = module.__dict__.get(COMPILED_CALL)
        if present is not self:
            self._compiled = present
            module.__dict__[COMPILED_CALL] = self

    def uninstall_if_idle(self) -> None:
        module = self.module()
        if module is None or any(self.observers.values()) or module.__dict__.get(COMPILED_CALL) is not self:
            return
        if self._compiled is None:
            module.__dict__.pop(COMPILED_CALL, None)
        else:
            module.__dict__[COMPILED_CALL] = self._compiled

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    @never_compiled
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        assert module is not None  # who calls it holds it
        if torch.compiler.is_compiling():
            return (self._compiled or getattr(module, PLAIN_CALL))(*args, **kwargs)
        # A replica that DataParallel made for another device has the attributes of its original.
        caller = sys._getframe(1).f_locals.get("self")
        is_copy = caller is not module and is_replica(caller)
        return self._observed(cast(torch.nn.Module, caller) if is_copy else module, args, kwargs)

    @never_compiled
    def _observed(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        forward = self._compiled or getattr(module, PLAIN_CALL)
        # One change to uncompiled code and back for all observers: it takes longer than most of them.
        if self.observers["begin"]:
            uncompiled(_tell, tuple(self.observers["begin"]), module, args, kwargs)
        try:
            output = forward(*args, **kwargs)
        except BaseException:
            uncompiled(_tell, reversed(tuple(self.observers["end"])), module)
            raise
        uncompiled(_tell_of_return, self, module, args, output)
        return output


# By identity: a class of modules may define equality. An entry lives as long as an observer, or a call that runs.
_calls: weakref.WeakValueDictionary[int, _ObservedCall] = weakref.WeakValueDictionary()
# Reentrant: a garbage collection within it may remove observers.
_here = threading.local()
_changing = threading.RLock()


def _known_call(module: torch.nn.Module) -> _ObservedCall | None:
    call = _calls.get(id(module))
    return call if call is not None and call.is_of(module) else None


def is_compiled_in_place(module: torch.nn.Module) -> bool:
    """Whether ``module.compile()`` was called, so that forward hooks of what it contains are not."""
    place = getattr(module, COMPILED_CALL, None)
    return place.wraps_compiled_code if isinstance(place, _ObservedCall) else place is not None


@contextmanager
def unobserved(model: torch.nn.Module) -> Iterator[None]:
    """Keeps the observers that a model's modules have from seeing the calls that this thread makes meanwhile.

    One thread at a time may be in such a block of a model. ``is_unobserved`` tells those who observe otherwise.
    """
    calls = [call for module in model.modules() if (call := _known_call(module)) is not None]
    present = [observer for call in calls for event in call.observers.values() for observer in tuple(event)]
    here = threading.get_ident()
    for observer in present:
        observer.silent_in = (*observer.silent_in, here)
    _here.blocks = getattr(_here, "blocks", 0) + 1
    try:
        yield
    finally:
        _here.blocks -= 1
        for observer in present:
            threads = list(observer.silent_in)
            threads.remove(here)
            observer.silent_in = tuple(threads)


def is_unobserved() -> bool:
    """Whether this thread is in a block of ``unobserved``: what it computes belongs to no training."""
    return getattr(_here, "blocks", 0) > 0
