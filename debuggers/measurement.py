"""Measures many tensors at once: statistics and a mergeable histogram of each.

Host tensors go through one call of a compiled kernel where numba is installed; tensors on CUDA are measured there,
with one copy to the host. Nothing here draws random numbers or changes a tensor.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from debuggers import measurement_torch
from debuggers.deferred import DeferredTensor
from debuggers.measurement_values import MAX_LENGTH, address, pieces, plain_values
from debuggers.summary_table import SummaryTable
from debuggers.tensor_summary import TensorSummary
from debuggers.torch_import import torch

__all__ = ["PendingSummaries", "SummaryTable", "TensorSummary", "measure", "prepare", "summarize"]

_log = logging.getLogger(__name__)
_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})
_KERNEL_DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_MAX_WAITING = 1 << 24  # elements of converted copies that wait for the kernel
_Kernel = Callable[[list[int], list[int], str], list[TensorSummary]]


class PendingSummaries:
    """Measurements that may still run on a device; made by ``measure``."""

    __slots__ = ("_device_rows", "_shards", "_summaries")

    def __init__(
        self,
        summaries: list[TensorSummary | None],
        device_rows: list[tuple[list[int], DeferredTensor]],
        shards: set[int],
    ) -> None:
        self._summaries = summaries
        self._device_rows = device_rows
        self._shards = shards

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        return all(rows.ready() for _, rows in self._device_rows)

    def resolve(self) -> SummaryTable:
        """Waits for the devices and returns the summaries, in the order of the tensors."""
        for indices, rows in self._device_rows:
            _place(self._summaries, indices, measurement_torch.read(rows.resolve()))
        self._device_rows = []
        return SummaryTable.of(
            dataclasses.replace(summary, local_shard=True) if index in self._shards else summary
            for index, summary in enumerate(self._summaries)
            if summary is not None
        )


def summarize(tensors: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]) -> list[TensorSummary]:
    """Measures tensors: count, moments, norms, extremes, counts by kind and the fixed-bin histogram of each.

    Moments are summed in float64. Relative to a float64 reference the mean is within 1e-12 of the largest
    magnitude, l1 and l2 within 1e-12 of themselves, and the standard deviation within 1e-9 of itself or 1e-15 of
    the largest magnitude, as long as squares stay within float64; all else is exact.

    Any dtype and layout with plain values will do: bfloat16, float16 and float8, integers and bools by their
    value (beyond 2**53 rounded), complex by the modulus, sparse by the stored values (duplicates summed), a DTensor
    by its local shard (``local_shard`` is then true), quantised by the real values, empty and 0-d tensors.

    Args:
        tensors: A sequence, or a mapping whose names appear in errors.

    Returns:
        One summary for each tensor, in order.

    Raises:
        ArtifactError: For meta, nested, fake and freed tensors, and for what is no tensor.
    """
    return list(measure(tensors).resolve())


def measure(tensors: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]) -> PendingSummaries:
    """Like ``summarize``, but waits for no CUDA device until ``resolve``.

    Exceptions: coalescing a sparse tensor, and devices other than CUDA, from which the values are copied first.
    """
    values = list(tensors.values() if isinstance(tensors, Mapping) else tensors)
    names = list(tensors) if isinstance(tensors, Mapping) else None
    host = _HostBatch(len(values))
    device_rows: dict[torch.device, tuple[list[int], list[torch.Tensor]]] = {}
    shards: set[int] = set()
    for index, tensor in enumerate(values):
        what = index if names is None else names[index]
        if _is_plain(tensor):
            host.add(what, index, tensor)
            continue
        flat, local_shard = plain_values(what, tensor)
        if local_shard:
            shards.add(index)
        for piece in pieces(what, flat):
            if piece.device.type == "cpu":
                host.add(what, index, piece, converted=piece is not tensor)
            else:
                indices, rows = device_rows.setdefault(piece.device, ([], []))
                indices.append(index)
                rows.append(measurement_torch.measure(piece))
    host.flush()
    pending = [(indices, DeferredTensor(torch.stack(rows))) for indices, rows in device_rows.values()]
    return PendingSummaries(host.summaries, pending, shards)


def prepare() -> float:
    """Compiles the kernel, or loads it from its cache, so that the first step need not; returns the seconds."""
    start = time.perf_counter()
    summarize([torch.zeros(1), torch.zeros(1, dtype=torch.float64)])
    return time.perf_counter() - start


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the kernel can read the memory as it is; a fraction of a microsecond for each of many tensors."""
    return (
        type(tensor) in _ORDINARY
        and tensor.dtype in _KERNEL_DTYPES
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and tensor.numel() < MAX_LENGTH
    )


class _HostBatch:
    """Collects host tensors for one call of the kernel for each dtype."""

    def __init__(self, size: int) -> None:
        self.summaries: list[TensorSummary | None] = [None] * size
        self._kernel = _load_kernel()
        self._waiting: dict[torch.dtype, tuple[list[int], list[int], list[int]]] = {}
        self._copies: list[torch.Tensor] = []
        self._waiting_elements = 0
        self._empty()

    def _empty(self) -> None:
        self._waiting = {dtype: ([], [], []) for dtype in _KERNEL_DTYPES}
        self._copies = []
        self._waiting_elements = 0

    def add(self, what: int | str, index: int, tensor: torch.Tensor, *, converted: bool = False) -> None:
        """Adds a piece of the tensor at ``index``; the caller keeps its memory alive unless it is a copy."""
        pointer = address(what, tensor)
        if self._kernel is None:
            _place(self.summaries, [index], measurement_torch.measure_on_host(tensor))
            return
        indices, addresses, lengths = self._waiting[tensor.dtype]
        indices.append(index)
        addresses.append(pointer)
        lengths.append(tensor.numel())
        if converted:
            self._copies.append(tensor)
            self._waiting_elements += tensor.numel()
            if self._waiting_elements > _MAX_WAITING:
                self.flush()

    def flush(self) -> None:
        """Measures what waits."""
        for dtype, (indices, addresses, lengths) in self._waiting.items():
            if indices and self._kernel is not None:
                _place(self.summaries, indices, self._kernel(addresses, lengths, _KERNEL_DTYPES[dtype]))
        self._empty()


def _place(summaries: list[TensorSummary | None], indices: list[int], measured: list[TensorSummary]) -> None:
    """Puts summaries where they belong; pieces of one tensor merge."""
    for index, summary in zip(indices, measured, strict=True):
        before = summaries[index]
        summaries[index] = summary if before is None else before.merge(summary)


@cache
def _load_kernel() -> _Kernel | None:
    try:
        from debuggers import measurement_cpu
    except ImportError as error:
        _log.warning("measuring with torch operations, several times slower: numba cannot be imported (%s)", error)
        return None
    return measurement_cpu.summarize
