"""Keeps this process's threads out of SQLite while it forks.

SQLite has mutexes of the whole process. A child that is forked while another thread holds one finds it locked for ever:
its first use of SQLite hangs, also of a database that has nothing to do with a run. So whoever uses SQLite here does it
inside the gate, and a fork waits until nobody is, for at most a second: a call that takes longer waits for a disk, and
holds none of those mutexes then.
"""

import os
import threading
import time
import weakref

FORK_WAIT_S = 1.0


class _Presence:
    """One thread's way into the gate; re-entrant, also by a signal handler that forks."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> None:
        if _forks and not self._depth:  # else a thread that calls SQLite again and again would let no fork pass
            with _forking:
                pass
        self.lock.acquire()
        self._depth += 1

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        self.lock.release()

    def step_aside(self) -> None:
        """Lets a fork pass from inside; for what SQLite calls back, which holds none of its process-wide mutexes."""
        if not _forks or not self._depth:
            return
        depth = self._depth
        for _ in range(depth):
            self.lock.release()
        with _forking:
            pass
        for _ in range(depth):
            self.lock.acquire()


class _Here(threading.local):
    def __init__(self) -> None:
        self.presence = _Presence()
        with _joining:
            _presences.add(self.presence)


def inside() -> _Presence:
    """Returns what to enter around a use of SQLite in this thread."""
    return _here.presence


def _wait_outside() -> None:
    deadline = time.monotonic() + FORK_WAIT_S
    _forks.append(None)
    held = _taken([_forking], deadline)
    held += _taken([_joining], deadline)
    held += _taken([presence.lock for presence in list(_presences)], deadline)
    _held.append(held)


def _taken(locks: list[threading.RLock], deadline: float) -> list[threading.RLock]:
    return [lock for lock in locks if lock.acquire(timeout=max(0.0, deadline - time.monotonic()))]


def _go_on() -> None:
    for lock in reversed(_held.pop()):
        lock.release()
    _forks.pop()


def _start_anew() -> None:
    """In the child: the other threads did not come along, nor will they let go of anything."""
    global _forking, _joining, _presences, _here
    _forks.clear()
    _held.clear()
    _forking, _joining, _presences = threading.RLock(), threading.RLock(), weakref.WeakSet()
    _here = _Here()


_forks: list[None] = []
"""One entry for each thread that is about to fork."""
_held: list[list[threading.RLock]] = []
_forking = threading.RLock()
_joining = threading.RLock()
_presences: weakref.WeakSet[_Presence] = weakref.WeakSet()
_here = _Here()

os.register_at_fork(before=_wait_outside, after_in_parent=_go_on, after_in_child=_start_anew)
