"""What one measurement of a tensor says: statistics and a histogram that merge across steps and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.histograms.layout import SIGN_BIN, left_edges
from tracker_adapters.histograms.merging import merge_fields

_EMPTY = float("nan")

# |x| up to which a format rounds to zero (half its smallest subnormal; the tie goes to zero) and from which it has no
# finite value (halfway between its largest value and the next step). float16, bfloat16: IEEE 754 and its upper half;
# float8: Micikevicius et al., "FP8 formats for deep learning", 2022, table 1.
_FORMAT_LIMITS = {
    "fp16": (2.0**-25, 65520.0),
    "bf16": (2.0**-134, 2.0**128 * (1 - 2.0**-9)),
    "fp8-e4m3": (2.0**-10, 464.0),
    "fp8-e5m2": (2.0**-17, 61440.0),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorSummary:
    """Statistics of a tensor's finite elements, counts of the others, and the fixed-bin histogram.

    Attributes:
        count: All elements; ``zero + negative + positive + nan + pos_inf + neg_inf``.
        nan: Elements that are NaN; ``pos_inf`` and ``neg_inf`` likewise.
        zero: Elements that are zero; ``negative`` and ``positive`` are the finite ones on either side.
        pos_overflow: float64 elements that float32 rounds to infinity or zero, as in ``Histogram``; so are
            ``neg_overflow``, ``pos_underflow`` and ``neg_underflow``.
        min: Smallest finite element; NaN when there is none. ``max`` and ``mean`` likewise.
        m2: Sum of squared differences from the mean; infinity when it exceeds float64.
        l1: Sum of absolute values; infinity when it exceeds float64.
        bins: Indices of the occupied bins, uint16, ascending, as in ``Histogram``.
        counts: Elements in each of them, int64.
        local_shard: Whether only this rank's shard of a distributed tensor was measured.
    """

    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    zero: int
    negative: int
    positive: int
    pos_overflow: int
    neg_overflow: int
    pos_underflow: int
    neg_underflow: int
    min: float
    max: float
    mean: float
    m2: float
    l1: float
    bins: npt.NDArray[np.uint16] = field(repr=False)
    counts: npt.NDArray[np.int64] = field(repr=False)
    local_shard: bool = False

    @property
    def finite_count(self) -> int:
        """Elements that are neither NaN nor infinite."""
        return self.zero + self.negative + self.positive

    @property
    def std(self) -> float:
        """Population standard deviation of the finite elements; NaN when there is none."""
        return math.sqrt(self.m2 / self.finite_count) if self.finite_count else _EMPTY

    @property
    def l2(self) -> float:
        """Euclidean norm of the finite elements: both terms are positive, so that nothing cancels.

        Beyond about 1e154 it is infinity, and below 1e-154 it loses digits: it is the root of a float64 sum.
        """
        if not self.finite_count:
            return 0.0
        return math.hypot(math.sqrt(self.m2), math.sqrt(self.finite_count) * self.mean)

    def histogram(self, name: str, step: int, time_ns: int | None = None) -> Histogram:
        """Returns the histogram artifact; ``time_ns`` is now by default.

        Raises:
            ArtifactError: For a wrong name, step or time.
        """
        shared: dict[str, Any] = {key: getattr(self, key) for key in _HISTOGRAM_FIELDS}
        if time_ns is not None:
            shared["time_ns"] = time_ns
        return Histogram(name=name, step=step, **shared)

    def merge(self, other: TensorSummary) -> TensorSummary:
        """Returns the summary of both tensors together.

        Counts, histogram, min and max are exact in any order of merging; mean and m2 follow Chan's formula.
        """
        return TensorSummary(
            negative=self.negative + other.negative,
            positive=self.positive + other.positive,
            l1=self.l1 + other.l1,
            local_shard=self.local_shard or other.local_shard,
            **merge_fields(self, other),
        )

    def percentile(self, q: float | Sequence[float]) -> npt.NDArray[np.float64]:
        """Returns percentiles of the finite elements within 6.25 %, as ``Histogram.percentile`` does."""
        return self.histogram("percentile", 0).percentile(q)

    def near_zero_fraction(self, threshold: float) -> tuple[float, float]:
        """Bounds on the share of finite elements with ``|x| <= threshold``, zeros included; NaN without elements.

        Raises:
            ArtifactError: Unless ``threshold`` is finite and not negative.
        """
        if not 0 <= threshold < math.inf:
            raise ArtifactError(f"near_zero_fraction: threshold is {threshold}; expected a finite number of at least 0")
        lefts, rights = self._magnitudes()
        certain = self.zero + self.pos_underflow + self.neg_underflow
        return self._shares(certain, rights <= threshold, lefts <= threshold)

    def flush_fraction(self, number_format: str) -> tuple[float, float]:
        """Bounds on the share of finite elements that are not zero and that a narrower format rounds to zero.

        Args:
            number_format: ``"fp16"``, ``"bf16"``, ``"fp8-e4m3"`` (the variant without infinities) or
                ``"fp8-e5m2"``. Subnormal values of the format count as kept.

        Returns:
            ``(low, high)``: the elements of a bin that straddles the limit are in ``high`` only. Both are NaN
            without finite elements.

        Raises:
            ArtifactError: For another format.
        """
        limit, _ = _limits(number_format)
        lefts, rights = self._magnitudes()
        return self._shares(self.pos_underflow + self.neg_underflow, rights <= limit, lefts <= limit)

    def saturate_fraction(self, number_format: str) -> tuple[float, float]:
        """Bounds on the share of finite elements too large for a narrower format; see ``flush_fraction``."""
        _, limit = _limits(number_format)
        lefts, rights = self._magnitudes()
        return self._shares(self.pos_overflow + self.neg_overflow, lefts >= limit, rights > limit)

    def _magnitudes(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The edges of each occupied bin without its sign."""
        magnitude = self.bins.astype(np.int64) % SIGN_BIN
        return left_edges(magnitude), left_edges(magnitude + 1)

    def _shares(
        self, certain: int, surely: npt.NDArray[np.bool_], possibly: npt.NDArray[np.bool_]
    ) -> tuple[float, float]:
        if not self.finite_count:
            return _EMPTY, _EMPTY
        low, high = (certain + int(self.counts[chosen].sum()) for chosen in (surely, possibly))
        return low / self.finite_count, high / self.finite_count


_HISTOGRAM_FIELDS = tuple(
    field.name for field in fields(TensorSummary) if field.name not in ("negative", "positive", "l1", "local_shard")
)


def _limits(number_format: str) -> tuple[float, float]:
    if number_format not in _FORMAT_LIMITS:
        raise ArtifactError(f"number format {number_format!r} is unknown; expected one of {', '.join(_FORMAT_LIMITS)}")
    return _FORMAT_LIMITS[number_format]
