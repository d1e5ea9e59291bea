"""The contexts that debuggers hold open while layers' forwards run."""

import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

Attempt: TypeAlias = Callable[..., Any]
"""Calls a function with its arguments and returns what it does; None stands for success."""
OpenContext: TypeAlias = Callable[[], AbstractContextManager[Any] | None]


class ForwardContexts(threading.local):
    """The open contexts of a thread, the innermost last. Calls of layers nest, and each call leaves its own."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = []

    def enter(self, owner: Hashable, attempt: Attempt, make: OpenContext | None) -> None:
        """Enters the context of a call that begins.

        Args:
            owner: Whose call it is: who leaves it names the same.
            attempt: Calls ``make`` and the context; it returns what failed, or None.
            make: Returns the context; None for a call without one.
        """
        frame = _Frame(owner, attempt)
        self._frames.append(frame)
        if make is not None:
            frame.failure = attempt(frame.enter, make)

    def leave(self, owner: Hashable) -> Any:
        """Leaves the context of the innermost call of an owner, and returns what failed in it, or None.

        Contexts inside of it that were never left, because something that is no ``Exception`` ended their calls, are
        left first.
        """
        if all(frame.owner != owner for frame in self._frames):
            return None
        while True:
            frame = self._frames.pop()
            failure = frame.attempt(frame.leave)
            if frame.owner == owner:
                return failure if frame.failure is None else frame.failure

    def leave_all(self) -> None:
        """Leaves every context of this thread."""
        while self._frames:
            frame = self._frames.pop()
            frame.attempt(frame.leave)


class _Frame:
    __slots__ = ("_context", "_handled", "attempt", "failure", "owner")

    def __init__(self, owner: Hashable, attempt: Attempt) -> None:
        self.owner = owner
        self.attempt = attempt
        self.failure: Any = None
        self._context: AbstractContextManager[Any] | None = None
        # An exception that the caller of the forward is handling is not one of the forward.
        self._handled = sys.exception()

    def enter(self, make: OpenContext) -> None:
        context = make()
        if context is not None:
            context.__enter__()
            self._context = context

    def leave(self) -> None:
        context, self._context = self._context, None
        if context is None:
            return
        error = sys.exception()
        if error is None or error is self._handled:
            context.__exit__(None, None, None)
        else:
            context.__exit__(type(error), error, error.__traceback__)
