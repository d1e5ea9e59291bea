"""Collects tensors until they are measured together."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from tracker_adapters.errors import ArtifactError

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement import torch_operations as measurement_torch
from debuggers.measurement.kernel_compilation import compilation
from debuggers.measurement.kernels.torch_threads import not_waiting
from debuggers.measurement.plain_values import address
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

_MAX_KEPT = 1 << 24  # elements of copies that wait for the kernel
_GROUP_ELEMENTS = {"cpu": 1 << 18}  # a group and its float64 copies fit the cache
_MAX_GROUP_ELEMENTS = 1 << 22  # bounds the memory of the copies


class HostBatch:
    """Host memory for calls of the compiled kernel. Whatever it is to read it keeps alive until then."""

    def __init__(self, kernel: ModuleType) -> None:
        self._kernel = kernel
        self._parts: list[tuple[list[int], SummaryTable]] = []
        self._empty()

    def _empty(self) -> None:
        self._indices: list[int] = []
        self._segments: list[int] = []
        self._kept: list[torch.Tensor] = []
        self._kept_elements = 0

    def add(self, index: int, what: int | str, tensor: torch.Tensor, before: torch.Tensor | None = None) -> None:
        """Adds the whole of the tensor at ``index``, less what lies at the same places of ``before``.

        Raises:
            ArtifactError: If the memory was freed.
        """
        self._indices.append(index)
        try:
            self._add_segment(what, tensor, before)
        except ArtifactError:
            self._indices.pop()
            raise

    def add_piece(self, index: int, what: int | str, piece: torch.Tensor) -> None:
        """Adds a piece of the tensor at ``index``, which may be a copy that nobody else keeps."""
        if not self._indices or self._indices[-1] != index:
            self._indices.append(index)
        self._add_segment(what, piece)
        self._kept_elements += piece.numel()
        if self._kept_elements > _MAX_KEPT:
            self._measure()

    def _add_segment(self, what: int | str, tensor: torch.Tensor, before: torch.Tensor | None = None) -> None:
        # The only place that hands addresses on: what is read there stays alive until the kernel has read it.
        self._kept.append(tensor)
        subtracted = 0
        if before is not None:
            self._kept.append(before)
            subtracted = address(what, before)
        row, is_double = len(self._indices) - 1, int(tensor.dtype is torch.float64)
        self._segments.extend((row, address(what, tensor), tensor.numel(), is_double, subtracted))

    def take(self) -> list[tuple[list[int], SummaryTable]]:
        """Measures what waits and returns tables, at least one, each with the indices of its rows, ascending."""
        if self._indices or not self._parts:
            self._measure()
        return self._parts

    def _measure(self) -> None:
        segments = np.array(self._segments, np.int64).reshape(-1, 5)
        self._parts.append((self._indices, self._kernel.measure_segments(segments, sum(self._segments[2::5]))))
        self._empty()


class DeviceBatch:
    """Pieces of tensors on one device for calls of ``measurement_torch.measure``."""

    def __init__(self, device: torch.device) -> None:
        self._limit = _GROUP_ELEMENTS.get(device.type, _MAX_GROUP_ELEMENTS)
        self._indices: list[int] = []
        self._rows: list[torch.Tensor] = []
        self._group: list[torch.Tensor] = []
        self._elements = 0

    def add(self, index: int, piece: torch.Tensor) -> None:
        """Adds a piece of the tensor at ``index``."""
        for part in torch.split(piece.detach(), self._limit) if piece.numel() else (piece,):
            full = len(self._group) == measurement_torch.GROUP_TENSORS
            if self._group and (full or self._elements + part.numel() > self._limit):
                self._measure()
            self._indices.append(index)
            self._group.append(part)
            self._elements += part.numel()

    def take(self) -> tuple[list[int], DeferredTensor]:
        """Measures what waits; returns the rows, for ``measurement_torch.read``, with the index of each."""
        self._measure()
        with not_waiting():
            return self._indices, DeferredTensor(torch.cat(self._rows))

    def _measure(self) -> None:
        self._rows.append(measurement_torch.measure(self._group))
        self._group = []
        self._elements = 0


def load_kernel() -> ModuleType | None:
    """Returns ``measurement_cpu``; None while it is being compiled, and where numba cannot be used."""
    if not compilation.is_ready():
        return None
    from debuggers.measurement import cpu as measurement_cpu

    return measurement_cpu
