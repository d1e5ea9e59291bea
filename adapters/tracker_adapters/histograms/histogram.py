"""The fixed-bin histogram: aggregated before it is stored, and merged without loss in any order.

A bin is the sign, the exponent and the top 3 mantissa bits of the float32 layout: 4096 bins, of which positive values
fill 0 to 2039 and negative ones 2048 to 4087. Each power of two is cut into 8 bins, so a value and the middle of its
bin differ by at most 6.25 %. Zeros, NaN and infinities are counted beside the bins. float64 values are rounded to
float32 first; those that then become infinite or zero have counts of their own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.contiguous_bins import contiguous_bins, first_edge, merged_bins, middles_at
from tracker_adapters.histograms.layout import MOMENTS, N_BINS, OVERFLOW_BIN, SHIFT, SIGN_BIN, TALLIES
from tracker_adapters.histograms.merging import merge_fields
from tracker_adapters.values.arrays import as_array, is_masked_array
from tracker_adapters.values.base import Artifact

_CHUNK = 1 << 17  # a chunk's temporaries stay in the processor's cache
_NEAR_ZERO = np.array([0, SIGN_BIN])  # zeros and what is too small for a bin of its own, by sign
_NON_FINITE = np.r_[OVERFLOW_BIN:SIGN_BIN, SIGN_BIN + OVERFLOW_BIN : N_BINS]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram(Artifact):
    """The distribution of an array at one step.

    Attributes:
        bins: Indices of the occupied bins, uint16, ascending.
        counts: Elements in each of them, int64, at least 1.
        count: All elements, the non-finite ones included.
        nan: Elements that are NaN; ``pos_inf``, ``neg_inf`` and ``zero`` likewise.
        pos_overflow: Finite float64 values that float32 rounds to +inf; ``neg_overflow`` to -inf.
        pos_underflow: Positive float64 values that float32 rounds to 0; ``neg_underflow`` negative ones.
        min: Smallest finite element as float64; NaN when there is none. ``max`` and ``mean`` likewise.
        m2: Sum of squared differences from the mean over finite elements (Chan, Golub and LeVeque 1983);
            infinity when it exceeds float64.
    """

    kind: ClassVar[str] = "histogram"
    bins: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.int64]
    count: int
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    pos_overflow: int = 0
    neg_overflow: int = 0
    pos_underflow: int = 0
    neg_underflow: int = 0
    min: float = float("nan")
    max: float = float("nan")
    mean: float = float("nan")
    m2: float = 0.0

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        bins = np.array(self.bins, dtype=np.uint16)
        counts = np.array(self.counts, dtype=np.int64)
        if bins.ndim != 1 or bins.shape != counts.shape:
            raise ArtifactError(
                f"histogram {self.name!r}: bins have shape {bins.shape} and counts {counts.shape}; expected one (n,)"
            )
        if bins.size and (int(bins[-1]) >= N_BINS or (np.diff(bins.astype(np.int32)) <= 0).any()):
            raise ArtifactError(f"histogram {self.name!r}: bins must be ascending, distinct and below {N_BINS}")
        if any(getattr(self, key) < 0 for key in TALLIES):
            raise ArtifactError(f"histogram {self.name!r}: counts must not be negative")
        beside = self.zero + self.pos_overflow + self.neg_overflow + self.pos_underflow + self.neg_underflow
        if counts.size and int(counts.min()) < 1:
            raise ArtifactError(f"histogram {self.name!r}: counts must be at least 1, got {int(counts.min())}")
        if int(counts.sum()) + beside != self.finite_count:
            raise ArtifactError(
                f"histogram {self.name!r}: bins and zeros hold {int(counts.sum()) + beside} elements; "
                f"expected count minus non-finite ones, {self.finite_count}"
            )
        bins.flags.writeable = False
        counts.flags.writeable = False
        object.__setattr__(self, "bins", bins)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def unchecked(cls, **fields: Any) -> Self:
        """Builds one from all its fields, which were checked before; its arrays become read-only."""
        histogram = object.__new__(cls)
        for key, value in fields.items():
            object.__setattr__(histogram, key, value)
        histogram.bins.flags.writeable = False
        histogram.counts.flags.writeable = False
        return histogram

    @classmethod
    def from_values(cls, name: str, values: Any, *, step: int, time_ns: int | None = None) -> Self:
        """Aggregates an array of any shape and real dtype; integers and bools count by their value.

        An empty or all-NaN array gives a histogram with no bins and NaN for min, max and mean.

        Args:
            name: The artifact's name.
            values: Numbers, a NumPy array or a host tensor. int64 beyond 2**53 is rounded to float64. What a masked
                array masks is left out.
            step: The step it belongs to.
            time_ns: When it was measured; now by default.

        Raises:
            ArtifactError: For complex, sparse, meta and non-numeric input.
        """
        if is_masked_array(values):
            values = values.compressed()
        flat = as_array(f"histogram {name!r}", values).reshape(-1)
        total = cls._of_chunk(name, step, time.time_ns() if time_ns is None else time_ns, flat[:_CHUNK])
        for start in range(_CHUNK, flat.size, _CHUNK):
            total = total.merge(cls._of_chunk(name, step, total.time_ns, flat[start : start + _CHUNK]))
        return total

    @classmethod
    def _of_chunk(cls, name: str, step: int, time_ns: int, chunk: npt.NDArray[Any]) -> Self:
        # A signalling NaN, as in uninitialised memory, is a value too; long doubles may go beyond float64.
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            wide = chunk.astype(np.float64, copy=False)
            narrow = chunk if chunk.dtype == np.float32 else wide.astype(np.float32)
        held = np.bincount(narrow.view(np.uint32) >> SHIFT, minlength=N_BINS)
        beside = dict.fromkeys(TALLIES[1:], 0)
        finite = wide
        if held[_NON_FINITE].any():
            held[_NON_FINITE] = 0
            finite = wide[np.isfinite(wide)]
            beside["nan"] = _how_many(np.isnan(wide))
            for sign, infinity in (("pos", np.inf), ("neg", -np.inf)):
                beside[f"{sign}_inf"] = infinite = _how_many(wide == infinity)
                beside[f"{sign}_overflow"] = _how_many(narrow == infinity) - infinite
        if held[_NEAR_ZERO].any():
            lost = narrow == 0
            held[_NEAR_ZERO] -= np.bincount(np.signbit(narrow[lost]), minlength=2)
            beside["zero"] = _how_many(wide == 0)
            beside["pos_underflow"] = _how_many(lost & (wide > 0))
            beside["neg_underflow"] = _how_many(lost & (wide < 0))
        bins = np.flatnonzero(held)
        mean, m2 = _mean_and_m2(finite)
        return cls(
            name=name,
            step=step,
            time_ns=time_ns,
            bins=bins.astype(np.uint16),
            counts=held[bins],
            count=chunk.size,
            **beside,
            # Adding zero makes -0.0 positive: which of the two zeros NumPy calls the smaller one is a matter of luck.
            min=float(finite.min()) + 0.0 if finite.size else float("nan"),
            max=float(finite.max()) + 0.0 if finite.size else float("nan"),
            mean=mean,
            m2=m2,
        )

    def merge(self, other: Histogram) -> Self:
        """Returns the histogram of both arrays together, at the later step and time.

        Counts, min and max are exact in any order of merging; mean and m2 follow Chan's pairwise formula
        (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983).

        Raises:
            ArtifactError: If the names differ: histograms of different things do not add up.
        """
        if other.name != self.name:
            raise ArtifactError(f"histogram {self.name!r}: cannot merge with {other.name!r}; expected the same name")
        return type(self)(
            name=self.name,
            step=max(self.step, other.step),
            time_ns=max(self.time_ns, other.time_ns),
            **merge_fields(self, other),
        )

    @property
    def finite_count(self) -> int:
        """Elements that are neither NaN nor infinite."""
        return self.count - self.nan - self.pos_inf - self.neg_inf

    @property
    def std(self) -> float:
        """Population standard deviation of the finite elements; NaN when there is none."""
        return float(np.sqrt(self.m2 / self.finite_count)) if self.finite_count else float("nan")

    def edges(self, max_bins: int | None = None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Returns the finite elements as contiguous bins, for trackers with their own histogram form.

        Gaps between occupied bins become bins with count 0. Zeros and values below float32's bins share one
        bin around zero. The outer edges are ``min`` and ``max``.

        Args:
            max_bins: Merge neighbouring bins until at most this many are left; at least 1.

        Returns:
            ``(edges, counts)`` of shapes (n + 1,) and (n,), edges strictly ascending; both empty when there
            is no finite element.
        """
        if max_bins is not None and max_bins < 1:
            raise ArtifactError(f"histogram {self.name!r}: max_bins is {max_bins}; expected at least 1")
        if not self.finite_count:
            return np.empty(0), np.empty(0, dtype=np.int64)
        _, rights, filled = contiguous_bins(
            self.bins,
            self.counts,
            np.array([self.bins.size]),
            around_zero=np.array([self.zero + self.pos_underflow + self.neg_underflow]),
            neg_overflow=np.array([self.neg_overflow]),
            pos_overflow=np.array([self.pos_overflow]),
            high=np.array([self.max]),
        )
        if max_bins is not None:
            rights, filled = merged_bins(rights, filled, max_bins)
        return np.concatenate([[first_edge(self.min, rights)], rights]), filled

    def percentile(self, q: float | Sequence[float]) -> npt.NDArray[np.float64]:
        """Returns percentiles of the finite elements; NaN when there is none.

        They are elements (NumPy's method ``lower``), known within 6.25 % where float32 is normal, that is from
        1.2e-38 to 3.4e38 on either side of zero.

        Args:
            q: One or several numbers from 0 to 100.
        """
        wanted = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if not ((wanted >= 0) & (wanted <= 100)).all():
            raise ArtifactError(f"histogram {self.name!r}: percentiles {wanted.tolist()} go beyond 0 to 100")
        if not self.finite_count:
            return np.full(wanted.shape, np.nan)
        edges, counts = self.edges()
        ranks = wanted / 100 * (self.finite_count - 1)
        picked = middles_at(edges, counts, ranks, low=self.min, high=self.max)
        return np.where(wanted == 0, self.min, np.where(wanted == 100, self.max, picked))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return (
            all(getattr(self, key) == getattr(other, key) for key in ("name", "step", "time_ns", *TALLIES))
            and all(np.array_equal(getattr(self, key), getattr(other, key), equal_nan=True) for key in MOMENTS)
            and np.array_equal(self.bins, other.bins)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]


def _how_many(mask: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


def _mean_and_m2(finite: npt.NDArray[np.float64]) -> tuple[float, float]:
    if not finite.size:
        return float("nan"), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        # Dividing first keeps the sum of values near the end of float64's range finite.
        mean = float(finite.mean())
        if not np.isfinite(mean):
            mean = float((finite / finite.size).sum())
        return mean, float(np.square(finite - mean).sum())
