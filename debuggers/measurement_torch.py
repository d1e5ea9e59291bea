"""Measures tensors with torch operations alone: on CUDA, and on the host where numba is not installed.

Every operation is deterministic and none waits for the device: results are rows of one table, copied once.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.histogram import N_BINS

from debuggers.tensor_summary import TensorSummary
from debuggers.torch_import import torch

_HOST_PIECE = 1 << 18  # a piece and its float64 copies fit the cache
# The codes of NaN in the bins of float32 are free; they count what the histogram has beside its bins.
_PLUS_OVERFLOW, _MINUS_OVERFLOW = 2040, 4088
_PLUS_INFINITY, _MINUS_INFINITY, _PLUS_UNDERFLOW, _MINUS_UNDERFLOW, _ZERO, _NAN = range(4090, 4096)


@torch.no_grad()
def measure(piece: torch.Tensor) -> torch.Tensor:
    """Measures a contiguous float32 or float64 tensor.

    Returns:
        An int64 row on its device: 4096 counts of bins and kinds, then the bits of five float64.
    """
    wide = piece.to(torch.float64)
    finite = torch.isfinite(wide)
    count = finite.sum()
    zeroed = torch.where(finite, wide, 0.0)
    mean = zeroed.sum() / count
    # Dividing first keeps the sum of values near the end of float64's range finite.
    mean = torch.where(torch.isfinite(mean), mean, (zeroed / count).sum())
    m2 = torch.where(finite, (wide - mean).square(), 0.0).sum()
    low, high = _extreme(finite, wide, torch.inf), -_extreme(finite, -wide, torch.inf)
    moments = torch.stack([low, high, mean, m2, zeroed.abs().sum()])
    return torch.cat([_count(_codes(wide, finite)), moments.view(torch.int64)])


def read(table: npt.NDArray[np.int64]) -> list[TensorSummary]:
    """Turns rows, once on the host, into summaries."""
    moments = table[:, N_BINS:].view(np.float64)
    return [_read_row(row, values) for row, values in zip(table[:, :N_BINS], moments.tolist(), strict=True)]


def measure_on_host(values: torch.Tensor) -> list[TensorSummary]:
    """Measures a contiguous host tensor piece by piece, so that the temporary copies stay small."""
    parts = values.detach().view(-1)
    rows = torch.stack([measure(part) for part in (torch.split(parts, _HOST_PIECE) if parts.numel() else (parts,))])
    return [reduce(TensorSummary.merge, read(rows.numpy()))]


def _extreme(finite: torch.Tensor, wide: torch.Tensor, nothing: float) -> torch.Tensor:
    # An empty tensor has no minimum: the extra element gives it one.
    values = torch.where(finite, wide, nothing)
    return torch.cat([values, values.new_full((1,), nothing)]).min()


def _codes(wide: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    """The bin of each element, or the code of its kind when it has none."""
    narrow = wide.to(torch.float32)
    codes = (narrow.view(torch.int32) >> 20) & (N_BINS - 1)
    beside = torch.where(wide > 0, _PLUS_UNDERFLOW, torch.where(wide < 0, _MINUS_UNDERFLOW, _ZERO))
    codes = torch.where(narrow == 0, beside.to(torch.int32), codes)
    beside = torch.where(wide > 0, _PLUS_INFINITY, torch.where(wide < 0, _MINUS_INFINITY, _NAN))
    return torch.where(finite, codes, beside.to(torch.int32))


def _count(codes: torch.Tensor) -> torch.Tensor:
    if codes.device.type == "cpu":
        return torch.bincount(codes, minlength=N_BINS)
    # On CUDA bincount waits for the largest code, and histc and scatter_add_ depend on the deterministic mode.
    ordered = codes.sort().values
    edges = torch.arange(N_BINS + 1, dtype=torch.int32, device=codes.device)
    return torch.searchsorted(ordered, edges).diff()


def _read_row(dense: npt.NDArray[np.int64], moments: list[float]) -> TensorSummary:
    counts = dense.tolist()
    bins = np.flatnonzero(dense[:_PLUS_INFINITY])
    bins = bins[(bins != _PLUS_OVERFLOW) & (bins != _MINUS_OVERFLOW)]
    beside: dict[str, Any] = {
        "nan": counts[_NAN],
        "pos_inf": counts[_PLUS_INFINITY],
        "neg_inf": counts[_MINUS_INFINITY],
        "zero": counts[_ZERO],
        "pos_overflow": counts[_PLUS_OVERFLOW],
        "neg_overflow": counts[_MINUS_OVERFLOW],
        "pos_underflow": counts[_PLUS_UNDERFLOW],
        "neg_underflow": counts[_MINUS_UNDERFLOW],
    }
    positive = sum(counts[: _PLUS_OVERFLOW + 1]) + counts[_PLUS_UNDERFLOW]
    negative = sum(counts[N_BINS // 2 : _MINUS_OVERFLOW + 1]) + counts[_MINUS_UNDERFLOW]
    nothing = positive + negative + counts[_ZERO] == 0
    low, high, mean, m2, l1 = moments
    return TensorSummary(
        count=sum(counts),
        negative=negative,
        positive=positive,
        min=float("nan") if nothing else low + 0.0,
        max=float("nan") if nothing else high + 0.0,
        mean=float("nan") if nothing else mean,
        m2=0.0 if nothing else m2,
        l1=l1,
        bins=bins.astype(np.uint16),
        counts=dense[bins],
        **beside,
    )
