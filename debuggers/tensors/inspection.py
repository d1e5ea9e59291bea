"""Inspects one tensor: starts the measurement, and turns what arrives into a TensorInfo."""

import reprlib
import time
from typing import Any

import numpy as np
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.values.arrays import as_array
from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.host_arrays.readable import dense
from debuggers.measurement.measure import PendingSummaries, measure
from debuggers.measurement.plain_values import called
from debuggers.tensors.health import any_non_finite, non_finite_counts
from debuggers.tensors.info import HealthLevel, TensorInfo, quality_of, quality_of_counts, read_only
from debuggers.torch_import import torch


class PendingInspection:
    """The inspection of a tensor that may still run on a device; from the host it is done at once.

    It keeps nothing of the tensor alive but the copy that FULL_TENSOR asks for.
    """

    __slots__ = ("_copy", "_counts", "_described", "_elements", "_summaries")

    def __init__(self, value: object, name: str, level: HealthLevel, *, memory_bytes: int, **described: Any) -> None:
        """Starts it.

        Args:
            value: A tensor, NumPy array, number, or list of numbers.
            name: What errors call it.
            level: What is measured.
            memory_bytes: What its storages take.
            described: The other fields of ``TensorInfo`` that its user gives.

        Raises:
            ArtifactError: For what holds no plain numbers; the message names the tensor.
        """
        tensor = as_tensor(name, value)
        self._summaries: PendingSummaries | None = None
        self._counts: DeferredTensor | None = None
        self._copy: DeferredTensor | None = None
        if level == HealthLevel.CURT:
            self._counts = DeferredTensor(any_non_finite(name, tensor))
        elif level == HealthLevel.CONCISE:
            self._counts = DeferredTensor(non_finite_counts(name, tensor))
        else:
            self._summaries = measure({name: tensor})
        if level == HealthLevel.FULL_TENSOR:
            self._copy = DeferredTensor(dense(tensor.detach()))
        dtype = getattr(value, "dtype", tensor.dtype)
        self._elements = local_part(tensor.detach()).numel()
        self._described: dict[str, Any] = {
            "name": name,
            "level": level,
            "time_ns": time.time_ns(),
            "shape": tuple(tensor.shape),
            "dtype": str(getattr(dtype, "name", dtype)).removeprefix("torch."),
            "device": str(tensor.device),
            "memory_bytes": memory_bytes,
            **described,
        }

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        waiting = (self._summaries, self._counts, self._copy)
        return all(part is None or part.ready() for part in waiting)

    def resolve(self) -> tuple[TensorInfo, HistogramColumns | None]:
        """Waits for the device and returns the result, and from FULL on the histogram, to be emitted."""
        values = None if self._copy is None else read_only(self._copy.resolve())
        if self._summaries is None:
            counts = [] if self._counts is None else self._counts.resolve().tolist()
            quality = quality_of_counts(self._elements, counts)
            return TensorInfo(quality=quality, values=values, **self._described), None
        table = self._summaries.resolve()
        stats = table[0]
        info = TensorInfo(quality=quality_of(self._elements, stats), stats=stats, values=values, **self._described)
        return info, table.columns


def as_tensor(name: str, value: object) -> torch.Tensor:
    """Returns a tensor as it is, and an array, number or list as one that may share its memory.

    Raises:
        ArtifactError: For what holds no numbers, such as object arrays, text and None.
    """
    if isinstance(value, torch.Tensor):
        return value
    if value is None or isinstance(value, (str, bytes, dict, set)):
        shown = f"{type(value).__name__} {reprlib.repr(value)}"
        raise ArtifactError(f"{called(name)}: got {shown}; expected a tensor or an array")
    is_complex = isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "c"
    array: Any = np.asarray(value) if is_complex else as_array(called(name), value)
    # torch takes neither extended precision, nor foreign byte orders, nor negative strides, nor read-only memory.
    narrowed = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind) if array.dtype.itemsize > 8 else None
    array = np.asarray(array, narrowed or array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array if array.flags.writeable else array.copy())
