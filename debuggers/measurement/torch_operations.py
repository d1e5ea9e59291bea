"""Measures tensors with torch operations alone: on CUDA, and on the host where the compiled code cannot be used.

Tensors of a group are laid end to end, so that their number does not multiply the operations. Every operation is
deterministic and none waits for the device: results are rows of one table, copied once.
"""

from collections.abc import Sequence

from tracker_adapters.histograms.layout import N_BINS, SHIFT

from debuggers.measurement.kernels.row_format import CODES
from debuggers.measurement.kernels.torch_threads import not_waiting
from debuggers.torch_import import torch

GROUP_TENSORS = 1024  # a row takes 16 kB
_CHUNK = 4096


@torch.no_grad()
@not_waiting()
def measure(group: Sequence[torch.Tensor]) -> torch.Tensor:
    """Measures contiguous float32 or float64 tensors of one device, together below 2**31 elements.

    Returns:
        An int32 row for each on their device; see ``kernels.row_format``.
    """
    # One more tensor, left out of the result: there may be no element otherwise, and then no minimum.
    flat = torch.cat([*(tensor.detach().view(-1) for tensor in group), group[0].new_zeros(1)])
    segments = _Segments([*(tensor.numel() for tensor in group), 1], flat.device)
    wide = flat.to(torch.float64)
    finite = torch.isfinite(wide)
    zeroed = torch.where(finite, wide, 0.0)
    count = segments.reduce("sum", finite.to(torch.float64))
    divisors = count[segments.rows]
    mean = segments.reduce("sum", zeroed) / count
    # Dividing first keeps the sum of values near the end of float64's range finite.
    mean = torch.where(torch.isfinite(mean), mean, segments.reduce("sum", zeroed / divisors))
    deviations = torch.where(finite, wide - mean[segments.rows], 0.0)
    correction = segments.reduce("sum", deviations / divisors)
    m2 = segments.reduce("sum", deviations.square())
    moments = [
        segments.reduce("min", torch.where(finite, wide, torch.inf)),
        segments.reduce("max", torch.where(finite, wide, -torch.inf)),
        mean + correction,
        torch.where(torch.isinf(m2), m2, m2 - count * correction.square()),
        segments.reduce("sum", zeroed.abs()),
    ]
    counts = _count(_codes(wide, finite) + segments.rows.to(torch.int32) * N_BINS, len(group) + 1)
    return torch.cat([counts, torch.stack(moments, dim=1).view(torch.int32)], dim=1)[:-1]


class _Segments:
    """Tensors laid end to end; ``rows`` says for each element to which it belongs."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        numbers = [-(-length // _CHUNK) for length in lengths]
        chunks = [min(_CHUNK, length - start) for length in lengths for start in range(0, length, _CHUNK)]
        # From pinned memory the copy waits for nothing.
        plan = torch.tensor([*lengths, *numbers, *chunks], device="cpu", pin_memory=device.type == "cuda")
        plan = plan.to(device, non_blocking=True)
        self._numbers, self._chunks = plan[len(lengths) : 2 * len(lengths)], plan[2 * len(lengths) :]
        self.rows = torch.repeat_interleave(plan[: len(lengths)], output_size=sum(lengths))

    def reduce(self, reduction: str, values: torch.Tensor) -> torch.Tensor:
        """Reduces the elements of each tensor, by chunks: a segment is reduced by few threads, one after the other."""
        # "unsafe" leaves out a check of the lengths, which would wait for the device.
        parts = torch.segment_reduce(values, reduction, lengths=self._chunks, unsafe=True)
        return torch.segment_reduce(parts, reduction, lengths=self._numbers, unsafe=True)


def _codes(wide: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    """The bin of each element, or the code of its kind when it has none."""
    narrow = wide.to(torch.float32)
    codes = (narrow.view(torch.int32) >> SHIFT) & (N_BINS - 1)
    beside = torch.where(wide > 0, CODES["pos_underflow"], torch.where(wide < 0, CODES["neg_underflow"], CODES["zero"]))
    codes = torch.where(narrow == 0, beside.to(torch.int32), codes)
    beside = torch.where(wide > 0, CODES["pos_inf"], torch.where(wide < 0, CODES["neg_inf"], CODES["nan"]))
    return torch.where(finite, codes, beside.to(torch.int32))


def _count(codes: torch.Tensor, tensors: int) -> torch.Tensor:
    """How often each code occurs, a row for each tensor."""
    if codes.device.type == "cpu":
        return torch.bincount(codes, minlength=tensors * N_BINS).to(torch.int32).view(tensors, N_BINS)
    # On CUDA bincount waits for the largest code, and histc and scatter_add_ depend on the deterministic mode.
    edges = torch.arange(tensors * N_BINS + 1, dtype=torch.int32, device=codes.device)
    return torch.searchsorted(codes.sort().values, edges, out_int32=True).diff().view(tensors, N_BINS)
