"""Starts the kernels for many tensors of one device; nothing here waits for it."""

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from debuggers.measurement.kernels.gpu.blocks import BLOCK, FOUND, measure_blocks
from debuggers.measurement.kernels.gpu.join import join_blocks
from debuggers.measurement.kernels.gpu.segments import Segment
from debuggers.measurement.kernels.row_format import WORDS
from debuggers.torch_import import torch

_OPTIONS = {"num_warps": 8, "enable_fp_fusion": False}


def measure_segments(segments: Sequence[Segment], device: torch.device) -> torch.Tensor:
    """Enqueues on the current stream, which is one of the device, what measures segments that are ordered by kind.

    Returns:
        int32 (n, ``WORDS``) on the device: a row for each segment; see ``row_format``.
    """
    numbers = [-(-segment.length // BLOCK.value) for segment in segments]
    firsts = [0, *accumulate(numbers)]
    table = [
        field
        for segment, first in zip(segments, firsts, strict=False)
        for field in (segment.address, segment.before, segment.length, first, segment.factor)
    ]
    # From pinned memory the copy waits for nothing.
    plan = torch.tensor([*table, *numbers], dtype=torch.int64, pin_memory=device.type == "cuda")
    plan = plan.to(device, non_blocking=True)
    owners = torch.repeat_interleave(plan[len(table) :], output_size=firsts[-1])
    rows = torch.zeros(len(segments), WORDS, dtype=torch.int32, device=device)
    partials = torch.empty(firsts[-1], FOUND.value, dtype=torch.float64, device=device)
    starts = [len(list(group)) for _, group in groupby(segments, key=lambda segment: segment.kind)]
    for start, end in pairwise([0, *accumulate(starts)]):
        if firsts[end] > firsts[start]:
            grid = (firsts[end] - firsts[start],)
            _start(measure_blocks, grid, plan, owners, rows, partials, firsts[start], *segments[start].kind)
    _start(join_blocks, (len(segments),), plan, rows, partials)
    return rows


def _start(kernel: Any, grid: tuple[int], *arguments: Any) -> None:
    kernel[grid](*arguments, **_OPTIONS)
