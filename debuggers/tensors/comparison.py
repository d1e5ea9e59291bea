"""Compares two tensors: their statistics, their distributions, and where both are at hand their elements."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.layout import N_BINS

from debuggers.host_arrays.element_difference import ElementDifference, element_difference
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.tensors.info import TensorInfo

_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorComparison:
    """How tensor b differs from tensor a; what could not be compared is None, and ``missing`` says why.

    Divergences are in nats, over the finite elements of the two histograms, whose bins are those of ``Histogram``,
    with zeros and the elements beyond float32 as bins of their own. They are NaN when a tensor has no finite element.

    Attributes:
        a: Name and step of the first tensor; ``b`` of the second.
        mean_difference: Mean of b minus mean of a; so are ``std_difference``, ``l1_difference`` and
            ``l2_difference``. NaN where a statistic is.
        kl_divergence: Kullback and Leibler's ``sum p log(p / q)``, p of a and q of b. Each share is smoothed,
            ``(count + 1/2) / (n + k/2)`` over the k bins that either occupies (Krichevsky and Trofimov, 1981), so
            that it is finite.
        reverse_kl_divergence: The same with a and b exchanged.
        jensen_shannon_divergence: ``KL(p, m) / 2 + KL(q, m) / 2`` with ``m = (p + q) / 2``, not smoothed: from 0 for
            equal to log 2 for disjoint distributions (Lin, 1991).
        elements: The difference element by element.
        missing: Why something is None; empty when nothing is.
    """

    a: tuple[str, int]
    b: tuple[str, int]
    mean_difference: float | None = None
    std_difference: float | None = None
    l1_difference: float | None = None
    l2_difference: float | None = None
    kl_divergence: float | None = None
    reverse_kl_divergence: float | None = None
    jensen_shannon_divergence: float | None = None
    elements: ElementDifference | None = None
    missing: str = ""


def compare_infos(a: TensorInfo, b: TensorInfo) -> TensorComparison:
    """Compares two inspected tensors as far as their health levels allow."""
    compared: dict[str, Any] = {}
    if a.stats is not None and b.stats is not None:
        compared = _statistics(a.stats, b.stats)
    missing = _missing(a, b)
    if a.values is not None and b.values is not None and not missing:
        compared["elements"] = element_difference(a.values, b.values)
    return TensorComparison(a=(a.name, a.step), b=(b.name, b.step), missing=missing, **compared)


def _missing(a: TensorInfo, b: TensorInfo) -> str:
    for info in (a, b):
        if info.stats is None:
            return f"tensor {info.name!r} at step {info.step} was inspected at {info.level.name}: it has no statistics"
    for info in (a, b):
        if info.values is None:
            return f"tensor {info.name!r} at step {info.step} was inspected at {info.level.name}: it has no values"
    if a.values is not None and b.values is not None and a.values.shape != b.values.shape:
        return f"the shapes are {a.values.shape} and {b.values.shape}: there are no pairs of elements"
    return ""


def _statistics(a: TensorSummary, b: TensorSummary) -> dict[str, float]:
    differences = {f"{key}_difference": getattr(b, key) - getattr(a, key) for key in ("mean", "std", "l1", "l2")}
    return differences | _divergences(a, b)


def _divergences(a: TensorSummary, b: TensorSummary) -> dict[str, float]:
    keys = ("kl_divergence", "reverse_kl_divergence", "jensen_shannon_divergence")
    if not a.finite_count or not b.finite_count:
        return dict.fromkeys(keys, math.nan)
    counts = np.stack([_finite_counts(a), _finite_counts(b)])
    counts = counts[:, counts.any(axis=0)]
    p, q = counts / counts.sum(axis=1, keepdims=True)
    middle = (p + q) / 2
    smooth = counts + _SMOOTHING
    smooth_p, smooth_q = smooth / smooth.sum(axis=1, keepdims=True)
    shannon = (_kullback_leibler(p, middle) + _kullback_leibler(q, middle)) / 2
    values = _kullback_leibler(smooth_p, smooth_q), _kullback_leibler(smooth_q, smooth_p), shannon
    return dict(zip(keys, values, strict=True))


def _finite_counts(summary: TensorSummary) -> npt.NDArray[np.float64]:
    dense = np.zeros(N_BINS + 5)
    dense[summary.bins] = summary.counts
    dense[N_BINS:] = (
        summary.zero, summary.pos_overflow, summary.neg_overflow, summary.pos_underflow, summary.neg_underflow,
    )  # fmt: skip
    return dense


def _kullback_leibler(p: npt.NDArray[np.float64], q: npt.NDArray[np.float64]) -> float:
    """``sum p log(p / q)``, at least 0 whatever the rounding; bins with p = 0 add nothing."""
    held = p > 0
    return max(0.0, float((p[held] * np.log(p[held] / q[held])).sum()))
