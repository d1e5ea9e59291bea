"""Keeps a failing debugger from stopping the run it watches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.values.checked_values import check_value

from debuggers.errors import DebuggerConfigError

OnError = Literal["isolate", "raise"]
_log = logging.getLogger(__name__)


class Isolation:
    """Catches exceptions and reports each cause once: in the log, and through ``report``.

    A cause is a place (a debugger with its layer, a page) with a type of exception. ``counts`` says how often
    each one was met.
    """

    def __init__(self, on_error: OnError, report: Callable[[str], None]) -> None:
        """Sets what happens to exceptions.

        Args:
            on_error: ``isolate`` catches; ``raise`` lets exceptions pass.
            report: Called with the message of each new cause.
        """
        check_value("on_error", on_error, OnError, DebuggerConfigError)
        self.on_error = on_error
        self.counts: dict[tuple[str, str], int] = {}
        self._report = report
        self._lock = threading.Lock()
        self._guards: dict[str, _Guard] = {}

    def guard(self, place: str) -> AbstractContextManager[None, bool]:
        """Catches and records the exceptions of a block, unless ``on_error`` is ``raise``."""
        guard = self._guards.get(place)
        if guard is None:
            guard = self._guards[place] = _Guard(self, place)
        return guard

    def record(self, place: str, error: Exception) -> None:
        """Counts an exception, and reports it if its cause is new."""
        cause = (place, type(error).__name__)
        with self._lock:
            self.counts[cause] = self.counts.get(cause, 0) + 1
            if self.counts[cause] > 1:
                return
        message = f"{place} failed: {describe(error)}"
        _log.error("%s (later failures of this kind are only counted)", message, exc_info=error)
        try:
            self._report(message)
        except Exception:
            _log.exception("the alert about this could not be emitted")


def failure_alerts(
    emitter: Emitter | None,
    step: Callable[[], int],
    *,
    name: str = "debugger_failed",
    level: AlertLevel = "error",
) -> Callable[[str], None]:
    """Returns a ``report`` for ``Isolation``: it emits an alert at the step that is asked for."""

    def report(message: str) -> None:
        if emitter is not None:
            emitter.alert(name, message, step=step(), level=level, told=True)

    return report


class _Guard:
    """A class of its own, because every step enters several: that takes a third of the time of a generator.

    It has no state, so that one serves all blocks of a place, also of several threads.
    """

    __slots__ = ("_isolation", "_place")

    def __init__(self, isolation: Isolation, place: str) -> None:
        self._isolation, self._place = isolation, place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self._isolation.record(self._place, error)
        return self._isolation.on_error != "raise"


def describe(error: Exception) -> str:
    """Returns an exception's type and message."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ is arbitrary code
        return f"{type(error).__name__}, whose message cannot be read"
