"""Counts the calls of torch's dropout functions, and those that drop, in one call of a model."""

import sys
import threading
from typing import Any

from debuggers.torch_internals.dropout_entries import (
    KINDS,
    DropoutEntry,
    dropout_entry,
    replace_dropout_entry,
    restore_dropout_entry,
)

_SHARE_AT, _TRAINING_AT = 1, 2
"""Where among the arguments they are."""
_FUNCTIONS, _MODULES = "torch.nn.functional", "torch.nn.modules.dropout"
_changing = threading.RLock()
_observers: tuple["DropoutCalls", ...] = ()
_made: dict[str, DropoutEntry] = {}
"""What takes the place of torch's functions, kept for good: TorchScript knows them by their address."""


class DropoutCalls:
    """What the dropouts of one thread do between ``start`` and ``stop``; nothing of them changes.

    Those of torch's dropout modules do not count, which know by themselves when to rest, nor those with a share of 0.

    Attributes:
        resting: Calls that were told to drop nothing, as by ``training=False``.
        dropping: The others.
    """

    def __init__(self) -> None:
        self.resting = self.dropping = 0
        self._thread = 0

    def start(self) -> None:
        """Counts those of this thread from zero from now on."""
        global _observers
        self.resting = self.dropping = 0
        self._thread = threading.get_ident()
        with _changing:
            _observers = (*(other for other in _observers if other is not self), self)
            for kind in KINDS:
                replace_dropout_entry(kind, _made.setdefault(kind, _counted(dropout_entry(kind))))

    def stop(self) -> None:
        """Counts no more; calling it again does nothing."""
        global _observers
        with _changing:
            _observers = tuple(other for other in _observers if other is not self)
            if not _observers:
                for kind, entry in _made.items():
                    restore_dropout_entry(kind, entry)

    def see(self, share: float, *, training: bool) -> None:
        """Takes a call, of whatever thread."""
        if share and threading.get_ident() == self._thread:
            self.resting += not training
            self.dropping += bool(training)


def _is_of_a_module() -> bool:
    """Whether the function of ``torch.nn.functional`` that this is called in was called by a module of torch's."""
    caller = sys._getframe(3) if sys._getframe(2).f_globals.get("__name__") == _FUNCTIONS else None
    return caller is not None and caller.f_globals.get("__name__") == _MODULES


def _counted(inner: DropoutEntry) -> DropoutEntry:
    def drop(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) > _TRAINING_AT and not _is_of_a_module():  # as torch.nn.functional calls it
            for observer in _observers:
                observer.see(arguments[_SHARE_AT], training=arguments[_TRAINING_AT])
        return inner(*arguments, **keywords)

    return drop
