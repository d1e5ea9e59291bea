"""Collects tensors until they are measured together."""

import numpy as np

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement import torch_operations as measurement_torch
from debuggers.measurement.cpu import measure_segments
from debuggers.measurement.gpu import give_up, on
from debuggers.measurement.kernels.gpu.compiling import DriverError
from debuggers.measurement.kernels.gpu.loading import Launch
from debuggers.measurement.kernels.gpu.nvrtc import CompilationError
from debuggers.measurement.kernels.gpu.segments import Segment
from debuggers.measurement.kernels.torch_threads import not_waiting
from debuggers.measurement.plain_values import address
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

_MAX_KEPT = 1 << 24  # elements of copies that wait for the kernel
_GROUP_ELEMENTS = {"cpu": 1 << 18}  # a group and its float64 copies fit the cache
_MAX_GROUP_ELEMENTS = 1 << 22  # bounds the memory of the copies
_WITH_DIFFERENCE = 2  # in the kind of a segment: measured as it is, and less what lies at another address


class HostBatch:
    """Host memory for calls of the compiled kernel. Whatever it is to read it keeps alive until then."""

    def __init__(self) -> None:
        self._parts: list[tuple[list[int], SummaryTable]] = []
        self._empty()

    def _empty(self) -> None:
        self._indices: list[int] = []
        self._segments: list[int] = []
        self._kept: list[torch.Tensor] = []
        self._kept_elements = 0
        self._places: dict[int, int] = {}  # by identity, where the segment of a tensor begins
        self._unplaced = 0  # of the first ones, which are not in places until it is asked for
        self._differences: dict[int, int] = {}  # by row, the indices of differences that are measured along with it

    def add_first(self, tensors: list[torch.Tensor], segments: list[int]) -> None:
        """Adds the first tensors, with the five numbers of each one's segment."""
        self._indices = list(range(len(tensors)))
        self._segments, self._kept, self._unplaced = segments, tensors, len(tensors)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether it was added as a whole and still waits."""
        if self._unplaced:
            first = {id(one): 5 * row for row, one in enumerate(self._kept[: self._unplaced])}
            self._places = first | self._places
            self._unplaced = 0
        return id(tensor) in self._places

    def add_difference(self, index: int, what: int | str, after: torch.Tensor, before: torch.Tensor) -> bool:
        """Has ``after - before``, the tensor at ``index``, measured in one pass with ``after``, if that was added.

        Both have the same elements at the same places of their memory. Returns False, and adds nothing, if ``after``
        was not, or is measured with another difference.

        Raises:
            ArtifactError: If the memory was freed.
        """
        if not self.holds(after):
            return False
        start = self._places[id(after)]
        if self._segments[start] in self._differences:
            return False
        self._segments[start + 4] = address(what, before)
        self._segments[start + 3] |= _WITH_DIFFERENCE
        self._differences[self._segments[start]] = index
        self._kept.append(before)
        return True

    def add(self, index: int, what: int | str, tensor: torch.Tensor, before: torch.Tensor | None = None) -> None:
        """Adds the tensor at ``index``, or a further piece of it, less what lies at the same places of ``before``.

        Raises:
            ArtifactError: If the memory was freed.
        """
        if not self._indices or self._indices[-1] != index:
            self._indices.append(index)
        # The only place that hands addresses on: what is read there stays alive until the kernel has read it.
        subtracted = 0 if before is None else address(what, before)
        row, is_double = len(self._indices) - 1, tensor.dtype is torch.float64
        if before is None:
            self._places[id(tensor)] = len(self._segments)
        self._segments += row, address(what, tensor), tensor.numel(), is_double, subtracted
        self._kept += (tensor,) if before is None else (tensor, before)

    def add_piece(self, index: int, what: int | str, piece: torch.Tensor) -> None:
        """Adds a piece of the tensor at ``index``, which may be a copy that nobody else keeps."""
        self.add(index, what, piece)
        self._kept_elements += piece.numel()
        if self._kept_elements > _MAX_KEPT:
            self._measure()

    def take(self) -> list[tuple[list[int], SummaryTable]]:
        """Measures what waits and returns tables, at least one, each with the indices of its rows."""
        if self._indices or not self._parts:
            self._measure()
        return self._parts

    def _measure(self) -> None:
        segments = np.array(self._segments, np.int64).reshape(-1, 5)
        # The kernel puts differences behind everything else, in the order of their tensors.
        indices = self._indices + [index for _, index in sorted(self._differences.items())]
        self._parts.append((indices, measure_segments(segments, sum(self._segments[2::5]))))
        self._empty()


class KernelBatch:
    """Memory of one CUDA device for a call of its kernels, or for several where there are many copies to be read.

    Work is enqueued on the stream that is current when it is. Where a kernel cannot be compiled or started, its errors
    are raised, and later batches leave the tensors' dtypes to torch operations.
    """

    def __init__(self, device: torch.device, launch: Launch) -> None:
        self._device = device
        self._launch = launch
        self._indices: list[int] = []
        self._rows: list[torch.Tensor] = []
        self._empty()

    def _empty(self) -> None:
        self._waiting: list[tuple[int, Segment]] = []
        self._kept: list[torch.Tensor] = []
        self._copied_elements = 0

    def add(
        self,
        index: int,
        what: int | str,
        tensor: torch.Tensor,
        before: torch.Tensor | None = None,
        factor: torch.Tensor | None = None,
    ) -> None:
        """Adds a dense tensor of a readable dtype, or a further piece of it, less ``before``; see ``HostBatch.add``.

        It is multiplied by ``factor``, a float32 on the device.

        Raises:
            ArtifactError: If the memory was freed.
        """
        places = [0 if one is None else self._place(what, one) for one in (tensor, before, factor)]
        segment = Segment(places[0], places[1], tensor.numel(), tensor.dtype, places[2])
        self._waiting.append((index, segment))

    def _place(self, what: int | str, tensor: torch.Tensor) -> int:
        """Where a tensor begins, which is kept until it was measured."""
        place = address(what, tensor)
        if place % tensor.element_size():  # between the places for its elements, where a device cannot read them
            tensor = tensor.clone()
            place = address(what, tensor)
        self._kept.append(tensor)
        return place

    def add_piece(self, index: int, what: int | str, piece: torch.Tensor, *, is_copy: bool) -> None:
        """Adds a piece of the tensor at ``index``, which nobody else keeps if it is a copy."""
        self.add(index, what, piece)
        if is_copy:
            self._copied_elements += piece.numel()
        if self._copied_elements > _MAX_KEPT:
            self._measure()

    def take(self) -> tuple[list[int], DeferredTensor]:
        """Measures what waits; returns the rows, for ``device_rows.read``, with the index of each."""
        if self._waiting or not self._rows:
            self._measure()
        with on(self._device):
            rows = self._rows[0] if len(self._rows) == 1 else torch.cat(self._rows)
            return self._indices, DeferredTensor(rows, unchanging=True)

    def _measure(self) -> None:
        self._waiting.sort(key=lambda waiting: waiting[1].kind)
        segments = [segment for _, segment in self._waiting]
        with on(self._device):
            try:
                self._rows.append(self._launch(segments, self._device))
            except (CompilationError, DriverError) as error:
                give_up(self._device, {segment.dtype for segment in segments}, error)
                raise
            _keep_until_read(self._kept, self._device)
        self._indices += [index for index, _ in self._waiting]
        self._empty()


class DeviceBatch:
    """Pieces of tensors on one device for calls of ``measurement_torch.measure``."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
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
        """Measures what waits; returns the rows, for ``device_rows.read``, with the index of each."""
        self._measure()
        with not_waiting():
            return self._indices, DeferredTensor(torch.cat(self._rows))

    def _measure(self) -> None:
        self._rows.append(measurement_torch.measure(self._group))
        _keep_until_read(self._group, self._device)
        self._group = []
        self._elements = 0


def _keep_until_read(tensors: list[torch.Tensor], device: torch.device) -> None:
    """Has memory that torch's allocator holds for another stream given to others only after what reads it now."""
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device)
        for tensor in tensors:
            tensor.record_stream(stream)
