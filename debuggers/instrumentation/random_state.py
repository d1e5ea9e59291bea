"""Keeps the random number generators as they are around code that may draw from them."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from debuggers.torch_import import torch


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restores the global generators of torch (host and current CUDA device), Python and NumPy at the end.

    The generators belong to the whole process. Where blocks of several threads overlap, the first one's begin is what
    the last one's end restores: no block's draws are left, whatever the order in which they end. A block inside another
    one of its thread restores what it found itself, so that each of several begins with the same numbers.
    """
    if getattr(_THREAD, "inside", False):
        found = RandomStates.now()
        try:
            yield
        finally:
            found.put_back()
        return
    _STATE.enter()
    _THREAD.inside = True
    try:
        yield
    finally:
        _THREAD.inside = False
        _STATE.leave()


class _SharedState:
    """The state before the first of the blocks that are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._host: tuple[Any, Any, torch.Tensor] | None = None
        self._devices: dict[int, torch.Tensor] = {}

    def renew_lock(self) -> None:
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            if self._host is None:
                self._host = random.getstate(), np.random.get_state(), torch.get_rng_state()
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                device = torch.cuda.current_device()
                if device not in self._devices:
                    self._devices[device] = torch.cuda.get_rng_state(device)
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks or self._host is None:
                return
            (python, numpy, host), self._host = self._host, None
            devices, self._devices = self._devices, {}
            random.setstate(python)
            np.random.set_state(numpy)
            torch.set_rng_state(host)
            for device, state in devices.items():
                torch.cuda.set_rng_state(state, device)


_STATE = _SharedState()
_THREAD = threading.local()
# Another thread may hold the lock at the fork, and does not exist in the child.
os.register_at_fork(after_in_child=_STATE.renew_lock)


@dataclass(frozen=True, slots=True)
class RandomStates:
    """The states of the global generators at a moment.

    Attributes:
        host: Torch's on the host.
        devices: Torch's on each CUDA device; empty before CUDA is in use, and where they were not kept.
        python: That of ``random``; None where it was not kept.
        numpy: That of ``numpy.random``; None where it was not kept.
    """

    host: torch.Tensor
    devices: list[torch.Tensor]
    python: Any
    numpy: Any

    @classmethod
    def now(cls, *, host_only: bool = False) -> Self:
        """Returns them as they are, or only torch's on the host: the others take 50 times as long."""
        if host_only:
            return cls(torch.default_generator.get_state(), [], None, None)
        return cls(
            host=torch.get_rng_state(),
            devices=torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
            python=random.getstate(),
            numpy=np.random.get_state(),
        )

    def put_back(self) -> None:
        """Sets the generators as they were."""
        torch.set_rng_state(self.host)
        for device, state in enumerate(self.devices):
            torch.cuda.set_rng_state(state, device)
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            np.random.set_state(self.numpy)
