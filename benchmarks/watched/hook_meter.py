"""Measures what the hooks of a framework's callback take, step by step, beside empty ones in the same places."""

import functools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stepscope.sessions.session import DebugSession

WARM_UP = 100
ONCE = (
    "setup",
    "on_train_begin",
    "on_train_start",
    "on_train_end",
    "teardown",
    "on_init_end",
    "before_train",
    "after_train",
    "attach",
    "close",
)


class Meter:
    """Adds up the time in hooks by step, less that of the session's step where a hook takes it.

    Attributes:
        micros: The microseconds of each step.
        empty: Those of the steps with empty hooks.
    """

    def __init__(self) -> None:
        self.micros: list[float] = []
        self.empty: list[float] = []
        self._random = random.Random(0)
        self._is_empty = self._is_inside = self._has_stepped = False
        self._spent, self._steps = 0.0, 0

    def hook(self, function: Callable[..., Any], instead: Callable[..., Any] | None) -> Callable[..., Any]:
        """Returns the hook, measured; of hooks within each other the outermost counts.

        Args:
            function: The hook.
            instead: Takes the place of a hook that takes the session's step, and does nothing else. Before any other
                one a function is called that does nothing at all.
        """

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside:
                return function(*args, **kwargs)
            self._is_inside = True
            try:
                if not self._is_empty or instead is not None:
                    return self._timed(instead if self._is_empty and instead is not None else function, args, kwargs)
                self._timed(_nothing, args, kwargs)
                return function(*args, **kwargs)
            finally:
                self._is_inside = False
                if self._has_stepped:
                    self._end()

        return measured

    def step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the session's step, measured: the hooks after it belong to the next one."""

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._has_stepped = True
                if self._is_inside:
                    self._spent -= (time.thread_time() - start) * 1e6
                else:
                    self._end()

        return measured

    def _timed(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            self._spent += (time.thread_time() - start) * 1e6

    def _end(self) -> None:
        if self._steps >= WARM_UP:
            (self.empty if self._is_empty else self.micros).append(self._spent)
        self._spent, self._has_stepped, self._steps = 0.0, False, self._steps + 1
        self._is_empty = self._random.random() < 0.5


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


@contextmanager
def metered(*classes: type, **instead: Callable[..., Any]) -> Iterator[Meter]:
    """Measures the hooks that the classes define themselves, but those that are called once.

    ``instead`` has those that take the session's step, by their names; see ``Meter.hook``.
    """
    meter, kept = Meter(), []
    names = [(one, name) for one in classes for name in vars(one) if not name.startswith("_") and name not in ONCE]
    for one, name in [*names, (DebugSession, "step")]:
        function = vars(one)[name]
        if callable(function) and not isinstance(function, type):
            kept.append((one, name, function))
            is_step = one is DebugSession
            setattr(one, name, meter.step(function) if is_step else meter.hook(function, instead.get(name)))
    try:
        yield meter
    finally:
        for one, name, function in kept:
            setattr(one, name, function)
