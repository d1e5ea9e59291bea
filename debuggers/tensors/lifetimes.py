"""Tracks the memory of inspected tensors by weak references, and reports names whose memory keeps growing."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from tracker_adapters.values.tensors import local_part

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import sparse_indices, sparse_values

RISES = 5


@dataclass(frozen=True, slots=True)
class TensorLeak:
    """A name whose tensors accumulate in memory.

    The rule: at each of the last 5 steps at which the name was seen there were more live tensors than at the one
    before; or at each of the last 10 there were more live bytes. Tensors of varying size can grow a few times by
    chance, and ten times in a row with odds of 1 to 11!. A cache or buffer that still fills looks the same: it is one
    no more, at the next look, when that growth pauses.

    Attributes:
        name: The name under which the tensors were inspected.
        steps: The observed steps, the first one before the growth.
        live_tensors: Tensors with a storage of their own that were alive at the end of each of them.
        live_bytes: What these storages took.
    """

    name: str
    steps: tuple[int, ...]
    live_tensors: tuple[int, ...]
    live_bytes: tuple[int, ...]

    @property
    def message(self) -> str:
        """The evidence in one sentence."""
        return (
            f"{self.name}: memory accumulates: {self.live_tensors[0]} live tensors with "
            f"{self.live_bytes[0]:,} bytes at step {self.steps[0]}, {self.live_tensors[-1]} with "
            f"{self.live_bytes[-1]:,} at step {self.steps[-1]}, and more at each observed step between"
        )


class _StorageRef(weakref.ref[Any]):
    """A weak reference to a storage that knows whom to take it from when the storage is gone."""

    __slots__ = ("key", "name", "nbytes")
    key: int
    name: str
    nbytes: int


class TensorLifetimes:
    """Which storages live, by the name under which each was first seen, with their bytes at that time.

    A storage counts once, however many tensors and views share it, and lives as long as anything uses it: also one
    that only an autograd graph holds on to. Nothing is kept alive here, and what dies is forgotten, so that this
    takes memory for live storages only. The cost of a step depends on the storages that were created and freed in it.
    Calls must not overlap.
    """

    def __init__(self) -> None:
        self._refs: dict[int, _StorageRef] = {}
        self._deaths: deque[_StorageRef] = deque()
        self._live: dict[str, tuple[int, int]] = {}
        self._seen: set[str] = set()
        self._history: dict[str, deque[tuple[int, int, int]]] = {}

    def watch(self, name: str, value: object) -> int:
        """Follows a tensor or array, and returns the bytes of the storages that it uses; lists are not followed."""
        storages = _storages(value)
        for storage in storages:
            known = self._refs.get(id(storage))
            if known is None or known() is not storage:
                self._follow(name, storage)
        self._seen.add(name)
        return sum(map(_nbytes, storages))

    def observe(self, step: int) -> None:
        """Notes what lives of the names that were seen since the last call; ``step`` is the one that ends."""
        self._bury()
        if not self._live:
            self._history.clear()
            self._seen.clear()
            return
        self._history = {name: history for name, history in self._history.items() if name in self._live}
        for name in self._seen & self._live.keys():
            self._history.setdefault(name, deque(maxlen=2 * RISES + 1)).append((step, *self._live[name]))
        self._seen.clear()

    def live_bytes(self) -> dict[str, int]:
        """Returns the bytes of live storages by name, the largest first."""
        self._bury()
        live = [(name, nbytes) for name, (_, nbytes) in self._live.items()]
        return dict(sorted(live, key=lambda item: -item[1]))

    def leaks(self) -> list[TensorLeak]:
        """Returns the names that ``TensorLeak``'s rule holds for at the last observed step, with the evidence."""
        found = (_leak(name, list(history)) for name, history in self._history.items())
        return [leak for leak in found if leak is not None]

    def has_ended(self, name: str) -> bool:
        """Whether a name has no more live tensors, nor more live bytes, than 5 of its observed steps ago."""
        if name not in self._live or name not in self._history:
            return True
        history = self._history[name]
        if len(history) <= RISES:
            return False
        (_, count, nbytes), (_, count_before, nbytes_before) = history[-1], history[-RISES - 1]
        return count <= count_before and nbytes <= nbytes_before

    def _follow(self, name: str, storage: Any) -> None:
        refs, deaths = self._refs, self._deaths

        def forget(ref: _StorageRef) -> None:
            # Called wherever the storage dies, in any thread and in the midst of anything: only steps that are atomic.
            refs.pop(ref.key, None)
            deaths.append(ref)

        ref = _StorageRef(storage, forget)
        ref.key, ref.name, ref.nbytes = id(storage), name, _nbytes(storage)
        self._bury()
        refs[ref.key] = ref
        self._add(name, 1, ref.nbytes)

    def _bury(self) -> None:
        while self._deaths:
            ref = self._deaths.popleft()
            self._add(ref.name, -1, -ref.nbytes)

    def _add(self, name: str, count: int, nbytes: int) -> None:
        counts, sizes = self._live.get(name, (0, 0))
        if counts + count:
            self._live[name] = counts + count, sizes + nbytes
        else:
            del self._live[name]


def bytes_of(value: object) -> int:
    """Returns the bytes of the storages that a tensor or array uses, each once; 0 of what has none of its own."""
    return sum(map(_nbytes, _storages(value)))


def _storages(value: object) -> list[Any]:
    """The objects whose lifetime is that of a tensor's memory: torch storages, or the array that owns it."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return _storages(value.base) if isinstance(value.base, torch.Tensor) else [value]
    if not isinstance(value, torch.Tensor):
        return []
    try:
        found = [part.untyped_storage() for part in _parts(value.detach())]
    except (RuntimeError, TypeError, NotImplementedError):  # made of other tensors, or inside a transformation
        return []
    return list({id(storage): storage for storage in found}.values())


def _parts(tensor: Any) -> list[torch.Tensor]:
    tensor = local_part(tensor)
    if tensor.layout is torch.sparse_coo:
        return [sparse_indices(tensor), sparse_values(tensor)]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _nbytes(storage: Any) -> int:
    """Bytes of a storage, which are a method of torch's and an attribute of NumPy's."""
    nbytes = storage.nbytes
    return int(nbytes() if callable(nbytes) else nbytes)


def _leak(name: str, history: list[tuple[int, int, int]]) -> TensorLeak | None:
    steps, counts, sizes = zip(*history, strict=True)
    for rises, series in ((RISES, counts), (2 * RISES, sizes)):
        last = series[-rises - 1 :]
        if len(last) > rises and all(before < after for before, after in pairwise(last)):
            window = slice(-rises - 1, None)
            return TensorLeak(name, steps[window], counts[window], sizes[window])
    return None
