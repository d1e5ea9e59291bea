"""Measures many tensors at once: statistics and a mergeable histogram of each.

Host tensors go through one call of a compiled kernel where it can be used; tensors on CUDA are measured there, by a
kernel compiled for them or by torch operations, with one copy to the host. Nothing here draws random numbers or changes
a tensor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tracker_adapters.errors import ArtifactError

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.compiled_code import between_graphs
from debuggers.measurement.choosing import Batches, lie_alike
from debuggers.measurement.device_rows import read
from debuggers.measurement.kernels.availability import is_usable
from debuggers.measurement.summary_table import SummaryTable
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.torch_import import torch

__all__ = [
    "Difference",
    "PendingSummaries",
    "Product",
    "SummaryTable",
    "TensorSummary",
    "measure",
    "prepare",
    "summarize",
]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """What ``measure`` takes as ``after - before``, two tensors of one shape on one device.

    Of float32 and float64 it is rounded to their dtype, as ``torch.sub`` does it; of narrower floats to float32, and of
    wider integers to float64.
    """

    after: torch.Tensor
    before: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """What ``measure`` takes as ``tensor * factor``, of halves in float32; it is stored where no kernel multiplies.

    Attributes:
        tensor: Of any float dtype.
        factor: A 0-d float32 tensor on its device.
    """

    tensor: torch.Tensor
    factor: torch.Tensor


class PendingSummaries:
    """Measurements that may still run on a device; made by ``measure``."""

    __slots__ = ("_device_parts", "_host_parts", "_shards", "_table")

    def __init__(
        self,
        host_parts: list[tuple[list[int], SummaryTable]],
        device_parts: list[tuple[list[int], DeferredTensor]],
        shards: list[int],
    ) -> None:
        self._host_parts = host_parts
        self._device_parts = device_parts
        self._shards = shards
        self._table: SummaryTable | None = None

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        return all(rows.ready() for _, rows in self._device_parts)

    def resolve(self) -> SummaryTable:
        """Waits for the devices and returns the summaries, in the order of the tensors."""
        if self._table is None:
            self._table = self._mark_shards(self._assemble())
            self._host_parts, self._device_parts = [], []
        return self._table

    def _assemble(self) -> SummaryTable:
        """Puts the rows into the order of their tensors; those of one tensor are merged."""
        if len(self._host_parts) == 1 and not self._device_parts:
            indices, table = self._host_parts[0]
            if indices == sorted(indices):
                return table
        parts = [(indices, read(rows.resolve())) for indices, rows in self._device_parts]
        parts += self._host_parts
        indices = [index for indices, _ in parts for index in indices]
        return SummaryTable.concatenate([table for _, table in parts]).grouped(indices)

    def _mark_shards(self, table: SummaryTable) -> SummaryTable:
        if not self._shards:
            return table
        local_shard = table.local_shard.copy()
        local_shard[self._shards] = True
        return replace(table, local_shard=local_shard)


@between_graphs
def summarize(tensors: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]) -> list[TensorSummary]:
    """Measures tensors: count, moments, norms, extremes, counts by kind and the fixed-bin histogram of each.

    Moments are summed in float64. Relative to a float64 reference the mean is within 1e-12 of the largest
    magnitude, l1 and l2 within 1e-12 of themselves, and the standard deviation within 1e-9 of itself or 1e-15 of
    the largest magnitude, as long as squares stay within float64; all else is exact. Where a kernel measures on
    CUDA, the mean of float32 and narrower floats is within 2**-20 of the standard deviation or 2**-40 of the largest
    magnitude, l1 and l2 within 2**-20 of themselves, and the standard deviation within 2**-20 of itself or 2**-29 of
    the largest magnitude.

    Any dtype and layout with plain values will do: bfloat16, float16 and float8, integers and bools by their
    value (beyond 2**53 rounded), complex by the modulus, sparse by the stored values (duplicates summed), a DTensor
    by its local shard (``local_shard`` is then true), quantised by the real values, empty and 0-d tensors.

    Args:
        tensors: A sequence, or a mapping whose names appear in errors.

    Returns:
        One summary for each tensor, in order.

    Raises:
        ArtifactError: For meta, jagged, fake and freed tensors, for what is no tensor, and for one tensor by itself.
    """
    if isinstance(tensors, torch.Tensor):  # a sequence, too: of its rows
        raise ArtifactError(
            f"got a tensor of shape {tuple(tensors.shape)}; expected several, as in summarize([tensor])"
        )
    return list(measure(tensors).resolve())


@between_graphs
def measure(
    tensors: Sequence[torch.Tensor | Difference | Product] | Mapping[str, torch.Tensor | Difference | Product],
) -> PendingSummaries:
    """Like ``summarize``, but waits for no CUDA device until ``resolve``, and gives all summaries as one table.

    Exceptions: coalescing a sparse tensor, and devices other than CUDA, from which the values are copied first. A
    ``Difference`` of plain host tensors is never stored; where its ``after`` is itself among the tensors before it,
    both are measured in one pass over the memory.
    """
    names, values = (list(tensors), tensors.values()) if isinstance(tensors, Mapping) else (None, tensors)
    batches = Batches()
    host, shards = batches.host, []
    first = batches.add_first(tuple(values))
    for index, tensor in enumerate(islice(values, first, None), first):
        what = index if names is None else names[index]
        if isinstance(tensor, torch.Tensor) and (batch := batches.reading(tensor)):
            batch.add(index, what, tensor)
            continue
        if isinstance(tensor, Product):
            if batches.add_product(index, what, tensor.tensor, tensor.factor):
                shards.append(index)
            continue
        after, before = (tensor.after, tensor.before) if isinstance(tensor, Difference) else (tensor, None)
        batch = batches.reading(after)
        if before is not None and batch and batches.reading(before) is batch and lie_alike(after, before):
            if batch is not host or not host.add_difference(index, what, after, before):
                batch.add(index, what, after, before)
        elif batches.add_converted(index, what, after, before):
            shards.append(index)
    return PendingSummaries(*batches.take(), shards)


def prepare() -> None:
    """Loads the kernel, so that the first step need not."""
    is_usable()
