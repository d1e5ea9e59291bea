"""Tells when a backward pass of a training begins and ends, and from which tensors it starts, in an unchanged loop."""

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from debuggers.instrumentation import compiled_code
from debuggers.instrumentation.call_observers import is_unobserved
from debuggers.instrumentation.compiled_code import is_plain, never_compiled, uncompiled
from debuggers.instrumentation.training_pass import holds_values
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id
from debuggers.torch_internals.backward_entry import Entry, current_entry, fills_gradients, replace_entry

End: TypeAlias = Callable[[bool], None]
"""Called when a backward pass has ended, with whether it ended without an exception."""
Begin: TypeAlias = Callable[[tuple[torch.Tensor, ...]], End | None]
"""Called before a backward pass with the tensors that it starts from, whose graph is complete; what it returns is
called at its end. It keeps none of these tensors, nor a node of their graph, beyond that."""

for _function in (fills_gradients, holds_values):
    never_compiled(_function)  # dynamo would trace what a skipped function calls

_log = logging.getLogger(__name__)
_changing = threading.RLock()


class _Here(threading.local):
    """What holds in this thread."""

    inside = False


_here = _Here()
_observers: tuple["BackwardObservation", ...] = ()


class BackwardObservation:
    """Calls a function at each backward pass of the process until ``remove``.

    A pass is a call of ``loss.backward()`` or ``torch.autograd.backward``, by whomever. Left out are calls of
    ``torch.autograd.grad``, which fill no gradients; passes inside of another one, such as those of activation
    checkpointing; those of a model that runs aside, as when a step is repeated; and passes over tensors without values,
    as while compiling. A pass in another thread is told there.

    While there is one, torch calls a function of this module where a pass enters the engine; it changes nothing of
    the pass. After the last one torch has its own again. If somebody else has put theirs around ours meanwhile, ours
    stays inside and only passes on.
    """

    __slots__ = ("begin",)

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        compiled_code.prepare()
        global _observers
        with _changing:
            _observers = (*_observers, self)
            _install()

    def remove(self) -> None:
        """Ends it; calling it again does nothing."""
        global _observers
        with _changing:
            _observers = tuple(other for other in _observers if other is not self)
            if not _observers:
                _uninstall()


class _ObservedEntry:
    """Takes the place of the function by which passes enter the engine."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Entry) -> None:
        self._inner = inner

    @property
    def inner(self) -> Entry:
        return self._inner

    @never_compiled
    def __call__(self, roots: Any, *arguments: Any, **keywords: Any) -> Any:
        if not _observers or not fills_gradients(keywords) or _is_inside() or not holds_values():
            return self._inner(roots, *arguments, **keywords)
        plain = is_plain()  # asked once for both: it takes longer than most of what follows
        ends: list[End] = _begin_all(roots) if plain else uncompiled(_begin_all, roots)
        succeeded, _here.inside = False, True
        try:
            result = self._inner(roots, *arguments, **keywords)
            succeeded = True
            return result
        finally:
            _here.inside = False
            if plain:
                _end_all(ends, succeeded)
            else:
                uncompiled(_end_all, ends, succeeded)


def _install() -> None:
    if not isinstance(current_entry(), _ObservedEntry):
        replace_entry(_ObservedEntry(current_entry()))


def _uninstall() -> None:
    entry = current_entry()
    if isinstance(entry, _ObservedEntry):
        replace_entry(entry.inner)


@never_compiled
def _is_inside() -> bool:
    """Whether this is called within an observed pass, also in one of the engine's own threads, or of no training."""
    return _here.inside or backward_pass_id() != NO_BACKWARD_PASS or is_unobserved()


def _begin_all(roots: Any) -> list[End]:
    tensors = tuple(root for root in roots if isinstance(root, torch.Tensor))  # others are edges of a graph
    ends = []
    for observer in _observers:
        try:
            end = observer.begin(tensors)
        except Exception:  # nothing of ours may stop a training
            _log.exception("a backward pass could not be observed")
        else:
            if end is not None:
                ends.append(end)
    return ends


def _end_all(ends: list[End], succeeded: bool) -> None:
    for end in reversed(ends):  # who began last is nearest to the pass
        try:
            end(succeeded)
        except Exception:
            _log.exception("the end of a backward pass could not be observed")
