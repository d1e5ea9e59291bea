"""Preserves the states of the random number generators around code that may draw from them."""

import os
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from debuggers.torch_import import torch


@contextmanager
def preserved_random_state(tensors: Iterable[torch.Tensor] = ()) -> Iterator[None]:
    """Restores the global generators of Python, NumPy and torch at the end.

    Of CUDA devices, restores those of the current one and of the ones that hold ``tensors``.

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
    _STATE.enter(tensors)
    _THREAD.inside = True
    try:
        yield
    finally:
        _THREAD.inside = False
        _STATE.leave()


@dataclass(frozen=True, slots=True)
class RandomStates:
    """The states of the global generators at a moment.

    Attributes:
        host: Torch's on the host.
        python: That of ``random``; None where it was not kept.
        numpy: That of ``numpy.random``; None where it was not kept.
        devices: Torch's on CUDA devices; empty before CUDA is in use, and where they were not kept.
    """

    host: torch.Tensor
    python: Any = None
    numpy: Any = None
    devices: dict[int, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def now(cls, *, host_only: bool = False) -> Self:
        """Returns them as they are, or only torch's on the host: the others take 50 times as long."""
        if host_only:
            return cls(torch.default_generator.get_state())
        found = cls.of_host()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            found.keep(range(torch.cuda.device_count()))
        return found

    @classmethod
    def of_host(cls) -> Self:
        """Returns them as they are but for those of the CUDA devices."""
        return cls(torch.get_rng_state(), random.getstate(), np.random.get_state())

    def keep(self, devices: Iterable[int]) -> None:
        """Adds the states of those CUDA devices whose states are not there yet."""
        for device in devices:
            if device not in self.devices:
                self.devices[device] = torch.cuda.get_rng_state(device)

    def put_back(self) -> None:
        """Sets the generators as they were."""
        torch.set_rng_state(self.host)
        for device, state in self.devices.items():
            torch.cuda.set_rng_state(state, device)
        if self.python is not None:
            random.setstate(self.python)
        if self.numpy is not None:
            np.random.set_state(self.numpy)


class _SharedState:
    """The state before the first of the blocks that are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._found: RandomStates | None = None

    def renew_lock(self) -> None:
        self._lock = threading.Lock()

    def enter(self, tensors: Iterable[torch.Tensor]) -> None:
        with self._lock:
            if self._found is None:
                self._found = RandomStates.of_host()
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                indices = (tensor.device.index for tensor in tensors if tensor.is_cuda)
                self._found.keep({torch.cuda.current_device(), *indices})
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks or self._found is None:
                return
            found, self._found = self._found, None
            found.put_back()


_STATE = _SharedState()
_THREAD = threading.local()
# Another thread may hold the lock at the fork, and does not exist in the child.
os.register_at_fork(after_in_child=_STATE.renew_lock)
