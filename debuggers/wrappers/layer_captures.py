"""The captures of one debugger's layers in one forward pass, call by call."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from debuggers.instrumentation.module_selection import NamedModule

MAX_CALLS = 16
"""Calls of one layer in one forward pass that are captured, as many as ActivationMonitor records."""


class Captures(dict[str, Any]):
    """Several captures by name: what the slot of a debugger holds when it is not one capture alone.

    ``<layer>`` is the name of a layer's first call in a forward pass, ``<layer>:1`` that of its second.
    """


@dataclass(frozen=True, slots=True)
class WatchedLayers:
    """The layers that one debugger watches: none when the model has none of them.

    ``by_name`` says whether the debugger names one layer by its plain name.
    """

    layers: tuple[NamedModule, ...]
    by_name: bool


class LayerCaptures:
    """What was captured for one debugger in one forward pass; used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, int] = {}
        self._captures: dict[str, tuple[str, Any]] = {}

    def take(self) -> dict[str, tuple[str, Any]]:
        """Returns ``{capture name: (layer, capture)}`` in the order of the calls, and counts calls from 0 again."""
        with self._lock:
            taken, self._captures, self._calls = self._captures, {}, {}
        return taken

    def has_room(self, layer: str) -> bool:
        """Whether the next call of a layer is to be captured."""
        return self._calls.get(layer, 0) < MAX_CALLS

    def count_call(self, layer: str) -> str | None:
        """Counts a call that returned, and gives its name, or None when it is not to be captured."""
        with self._lock:
            call = self._calls.get(layer, 0)
            self._calls[layer] = call + 1
        if call >= MAX_CALLS:
            return None
        return f"{layer}:{call}" if call else layer

    def keep(self, name: str, layer: str, capture: Any) -> None:
        """Keeps the capture of a call that was counted."""
        with self._lock:
            self._captures[name] = (layer, capture)


def pictured(name: str, slot: Any) -> Iterator[tuple[str, Any]]:
    """Yields what a debugger can make pictures of, each under its name: a slot itself, or each of its captures.

    Nothing can be made of ``{"error": ...}``.
    """
    # By type: what a debugger returned may raise when it is asked anything else.
    if type(slot) is Captures:
        for capture_name, capture in slot.items():
            yield from pictured(f"{name}/{capture_name}", capture)
    elif not _is_error(slot):
        yield name, slot


def _is_error(slot: Any) -> bool:
    return type(slot) is dict and list(slot) == ["error"] and isinstance(slot["error"], str)
