"""What an emitter passes to a recorder: single artifacts, and blocks of many artifacts of one step."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Artifact, File, Histogram, Page, Scalar
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.faults import fault_in
from tracker_adapters.values.arrays import as_array
from tracker_adapters.values.tensors import is_device_tensor

ScalarRow: TypeAlias = tuple[str, int, int, float]
"""A checked scalar as ``(name, step, time_ns, value)``: the hot path builds no object."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An artifact that is checked now and built later, by the store's writer thread.

    ``nbytes`` is what it keeps in memory until then. ``parts``, for what takes long, builds it a few milliseconds at a
    time: it yields whether it did something, or waits for a device.
    """

    kind: str
    name: str
    nbytes: int
    build: Callable[[], Artifact]
    parts: Callable[[], Generator[bool, None, Artifact]] | None = None

    def building(self) -> Generator[bool, None, Artifact]:
        """Builds it in parts, if it has any; the generator's value is the artifact."""
        if self.parts is not None:
            return (yield from self.parts())
        return self.build()


@dataclass(frozen=True, slots=True, eq=False)
class ScalarBlock:
    """Checked scalars of one moment; ``values`` is float64 (n,), one for each of the n names."""

    names: tuple[str, ...]
    step: int
    time_ns: int
    values: npt.NDArray[np.float64]

    @classmethod
    def checked(cls, names: tuple[str, ...], step: int, time_ns: int, values: Any) -> Self:
        """Returns a block with a copy of ``values``: an array, sequence or host tensor of real numbers.

        Raises:
            ArtifactError: When they are not one number a name, on the host.
        """
        if is_device_tensor(values):
            raise ArtifactError(f"scalars: got a tensor on {values.device}; expected values on the host")
        numbers = np.array(as_array("scalars", values), np.float64)
        if numbers.shape != (len(names),):
            raise ArtifactError(f"scalars: got values of shape {numbers.shape}; expected ({len(names)},), one a name")
        return cls(names, step, time_ns, numbers)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def nbytes(self) -> int:
        """What it takes in memory; the names are shared with the other blocks of their producer."""
        return self.values.nbytes

    def artifacts(self) -> Iterator[Scalar]:
        """Yields the artifacts that it stands for."""
        for name, value in zip(self.names, self.values.tolist(), strict=True):
            yield Scalar(name=name, step=self.step, time_ns=self.time_ns, value=value)


@dataclass(frozen=True, slots=True, eq=False)
class HistogramBlock:
    """Checked histograms of one moment, one for each name."""

    names: tuple[str, ...]
    step: int
    time_ns: int
    columns: HistogramColumns

    @classmethod
    def checked(cls, names: tuple[str, ...], step: int, time_ns: int, columns: HistogramColumns) -> Self:
        """Returns a block of the columns as they are.

        Raises:
            ArtifactError: When they are not one histogram a name, or one of them cannot be.
        """
        row, fault = fault_in(columns) or (-1, None)
        if fault is not None and row < 0:
            raise ArtifactError(f"histograms: {fault}")
        if len(names) != len(columns):
            raise ArtifactError(f"histograms: got {len(names)} names for {len(columns)} histograms; expected as many")
        if fault is not None:
            raise ArtifactError(f"histogram {names[row]!r}: {fault}")
        return cls(names, step, time_ns, columns)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def nbytes(self) -> int:
        """What it takes in memory; the names are shared with the other blocks of their producer."""
        return self.columns.nbytes

    def artifacts(self) -> Iterator[Histogram]:
        """Yields the artifacts that it stands for."""
        for row, name in enumerate(self.names):
            yield self.columns.histogram(row, name, step=self.step, time_ns=self.time_ns)


Block: TypeAlias = ScalarBlock | HistogramBlock
Storable: TypeAlias = ScalarRow | Artifact | Block
Recordable: TypeAlias = Storable | Deferred


def artifact_count(item: Recordable) -> int:
    """Returns how many artifacts an item stands for."""
    return len(item) if isinstance(item, (ScalarBlock, HistogramBlock)) else 1


def singles(item: Storable) -> Iterable[ScalarRow | Artifact]:
    """Returns the artifacts that an item stands for, one by one."""
    return item.artifacts() if isinstance(item, (ScalarBlock, HistogramBlock)) else (item,)


class PendingArray(Protocol):
    """A copy of a device tensor whose values reach the host later."""

    nbytes: int

    def resolve(self) -> npt.NDArray[Any]:
        """Waits for the copy and returns its values."""
        ...


class Recorder(Protocol):
    """Where an emitter puts what it is given: the run store, or a list in tests."""

    def put(self, item: Recordable, nbytes: int) -> None:
        """Queues an item that takes about ``nbytes`` of memory."""
        ...

    def adopt(self, artifact: Page | File) -> Page | File | None:
        """Takes a file into the run's folder and returns the artifact with its new path; None when it is lost."""
        ...
