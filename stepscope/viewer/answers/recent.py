"""What takes long to compute, kept by the position of its run; of a run that lives, anew as often as that is cheap."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
EVERY_S = 0.5
"""How long what was computed of a run that lives is good enough, at least."""
SHARE = 10
"""Computing takes at most this part of the time, as its inverse, while a run lives."""


@dataclass(slots=True)
class _Entry(Generic[T]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    position: str | None = None
    good_until_s: float = 0.0
    value: T | None = None


class Recent(Generic[T]):
    """Values by key, of which the least recently used are forgotten; two threads never compute the same one at once."""

    def __init__(self, most: int, size_of: Callable[[T], int] = lambda value: 1) -> None:
        """Keeps at most ``most`` of what ``size_of`` adds up, and at least the last value."""
        self._most = most
        self._size_of = size_of
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()

    def get(
        self, key: Hashable, position: str, compute: Callable[[T | None], T], *, live: bool = False
    ) -> tuple[str, T]:
        """Returns the value of a key and the position at which it was computed.

        Args:
            key: Whose value.
            position: How far its run is.
            compute: Returns the value; gets the one before, if it is kept still, which it may change and return.
            live: Whether an earlier position is good enough for a while, and while another thread computes.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        told, known = entry.position, entry.value
        if live and told is not None and known is not None and entry.lock.locked():
            return told, known
        with entry.lock:
            is_good = entry.position == position or (live and time.monotonic() < entry.good_until_s)
            if entry.value is None or entry.position is None or not is_good:
                started_s = time.monotonic()
                entry.value = compute(entry.value)
                entry.position = position
                took_s = time.monotonic() - started_s
                entry.good_until_s = time.monotonic() + max(EVERY_S, SHARE * took_s)
            found = entry.position, entry.value
        self._forget()
        return found

    def peek(self, key: Hashable, position: str) -> T | None:
        """Returns the value of a key if it is of this position, without waiting for one that is being computed."""
        with self._lock:
            entry = self._entries.get(key)
        return entry.value if entry is not None and entry.position == position else None

    def _forget(self) -> None:
        with self._lock:
            sizes = [0 if entry.value is None else self._size_of(entry.value) for entry in self._entries.values()]
            total = sum(sizes)
            for key, size in list(zip(self._entries, sizes, strict=True))[:-1]:
                if total <= self._most:
                    return
                del self._entries[key]
                total -= size
