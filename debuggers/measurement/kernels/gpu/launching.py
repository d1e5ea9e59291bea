"""Starts the kernels for many tensors of one device; nothing here waits for it."""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, groupby, pairwise

import numpy as np

from debuggers.measurement.kernels.gpu.compiling import Compile, Start
from debuggers.measurement.kernels.gpu.segments import Segment
from debuggers.measurement.kernels.row_format import WORDS
from debuggers.torch_import import torch

SMALLEST_BLOCK, LARGEST_BLOCK = 1 << 14, 1 << 17  # elements that a block of threads measures
_BLOCKS = 128  # of a segment that is neither small nor large: as many as a device has processors
FIELDS = 6  # of a segment: address, that of what is subtracted, length, elements of a block, its first block, factor
FOUND = 8  # numbers of a block; see measure.cu


def block_of(length: int) -> int:
    """Elements of a block; they depend on the segment alone, so that its sums do."""
    return min(max(SMALLEST_BLOCK, 1 << (length // _BLOCKS).bit_length()), LARGEST_BLOCK)


class Kernels:
    """The kernels, compiled for each device and kind of segment at their first use."""

    def __init__(self, compile_kernel: Compile) -> None:
        self._compile = compile_kernel
        self._measuring = cache(self._compile_measuring)
        self._joining = cache(self._compile_joining)

    def measure(self, segments: Sequence[Segment], device: torch.device) -> torch.Tensor:
        """Enqueues on the current stream, which is one of the device, what measures segments ordered by kind.

        Returns:
            int32 (n, ``WORDS``) on the device: a row for each segment; see ``row_format``.

        Raises:
            CompilationError, DriverError: If a kernel cannot be compiled, loaded or started.
        """
        sizes = [block_of(segment.length) for segment in segments]
        numbers = [-(-segment.length // size) for segment, size in zip(segments, sizes, strict=True)]
        firsts = [0, *accumulate(numbers)]
        table = [
            (segment.address, segment.before, segment.length, size, first, segment.factor)
            for segment, size, first in zip(segments, sizes, firsts, strict=False)
        ]
        owners = np.repeat(np.arange(len(segments)), numbers)
        plan = torch.from_numpy(np.concatenate([np.array(table, np.int64).ravel(), owners]))
        # From pinned memory the copy waits for nothing.
        plan = (plan.pin_memory() if device.type == "cuda" else plan).to(device, non_blocking=True)
        rows = torch.zeros(len(segments), WORDS, dtype=torch.int32, device=device)
        found = torch.empty(firsts[-1], FOUND, dtype=torch.float64, device=device)
        places = plan.data_ptr(), plan[len(segments) * FIELDS :].data_ptr(), rows.data_ptr(), found.data_ptr()
        starts = [len(list(group)) for _, group in groupby(segments, key=lambda segment: segment.kind)]
        for start, end in pairwise([0, *accumulate(starts)]):
            if firsts[end] > firsts[start]:
                measuring = self._measuring(segments[start].kind, device)
                measuring(firsts[end] - firsts[start], *places, firsts[start])
        self._joining(device)(len(segments), places[0], *places[2:])
        return rows

    def _compile_measuring(self, kind: tuple[int, bool, bool], device: torch.device) -> Start:
        dtype, subtracts, multiplies = kind
        constants = {"KIND": dtype, "SUBTRACT": int(subtracts), "SCALE": int(multiplies)}
        return self._compile("measure", constants, device)

    def _compile_joining(self, device: torch.device) -> Start:
        return self._compile("join", {}, device)
