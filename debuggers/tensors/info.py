"""The result of inspecting one tensor: its origin, health, statistics and values."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import Histogram

from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.tensors.outliers import TensorOutliers, tukey_outliers

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


class HealthLevel(IntEnum):
    """How much is measured; a higher level includes the lower ones.

    The names are those of TensorFlow 2's ``tf.debugging.experimental.enable_dump_debug_info``.

    Attributes:
        CURT: Whether any element is NaN or infinite.
        CONCISE: How many are NaN, +inf and -inf.
        FULL: How many are negative, zero and positive, too; statistics and the histogram.
        FULL_TENSOR: A copy of the values, too.
    """

    CURT = 1
    CONCISE = 2
    FULL = 3
    FULL_TENSOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorQuality:
    """Counts of a tensor's elements by kind; a count is None where the level does not include it.

    Attributes:
        elements: Elements of the tensor; of a distributed one those of this rank's shard.
        has_non_finite: Whether any of them is NaN or infinite.
        nan: How many are NaN; ``pos_inf`` and ``neg_inf`` likewise. From CONCISE on.
        zero: How many are zero, those that a sparse tensor leaves out included. From FULL on.
        negative: How many are finite and below zero; ``positive`` above it. From FULL on.
    """

    elements: int
    has_non_finite: bool
    nan: int | None = None
    pos_inf: int | None = None
    neg_inf: int | None = None
    zero: int | None = None
    negative: int | None = None
    positive: int | None = None

    @property
    def sparsity(self) -> float | None:
        """The share of zeros among all elements; NaN of an empty tensor, None below FULL."""
        return self._share(self.zero)

    @property
    def nan_fraction(self) -> float | None:
        """The share of NaN among all elements; NaN of an empty tensor, None at CURT."""
        return self._share(self.nan)

    def describe(self) -> str:
        """Says in words what is NaN or infinite."""
        if self.nan is None:
            return "some elements are NaN or infinite" if self.has_non_finite else "all elements are finite"
        return f"{self.nan} NaN, {self.pos_inf} +inf and {self.neg_inf} -inf among {self.elements} elements"

    def _share(self, count: int | None) -> float | None:
        if count is None:
            return None
        return count / self.elements if self.elements else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorInfo:
    """One inspected tensor.

    Attributes:
        id: What ``inspect_tensor`` returned.
        name: The name it was inspected under; ``layer`` and ``operation`` as they were given.
        step: The training step.
        time_ns: When it was inspected, nanoseconds since 1970.
        level: What was measured.
        shape: Its shape; of a distributed tensor the whole one's.
        dtype: Such as ``float32``.
        device: Such as ``cuda:0``; NumPy arrays lie on ``cpu``.
        memory_bytes: What the storages that it uses take: a view counts the whole of what it keeps alive.
        quality: Counts by kind.
        stats: Statistics of the finite elements, from FULL on: count, mean, std, min, max, l1, l2, and with a
            parameter ``percentile`` and ``near_zero_fraction``. Complex elements count by their modulus, of a sparse
            tensor the stored ones count.
        values: A read-only copy at FULL_TENSOR, else None. bfloat16 and float8 tensors have their ml_dtypes dtype,
            such arrays are float32; a sparse tensor is filled up with zeros; of a distributed one it is the shard.
    """

    id: int
    name: str
    layer: str | None
    operation: str | None
    step: int
    time_ns: int
    level: HealthLevel
    shape: tuple[int, ...]
    dtype: str
    device: str
    memory_bytes: int
    quality: TensorQuality
    stats: TensorSummary | None = None
    values: npt.NDArray[Any] | None = None

    @property
    def distribution(self) -> Histogram | None:
        """The fixed-bin histogram under the tensor's name; None below FULL."""
        return None if self.stats is None else self.stats.histogram(self.name, self.step, self.time_ns)

    @property
    def percentiles(self) -> dict[int, float] | None:
        """The 1st, 5th, 25th, 50th, 75th, 95th and 99th percentile, each within 6.25 %; None below FULL.

        They are NaN when no element is finite.
        """
        if self.stats is None:
            return None
        return dict(zip(PERCENTILES, self.stats.percentile(PERCENTILES).tolist(), strict=True))

    @property
    def outliers(self) -> TensorOutliers | None:
        """Elements outside of Tukey's fences, as bounds; None below FULL."""
        return None if self.distribution is None else tukey_outliers(self.distribution)


def quality_of(elements: int, summary: TensorSummary) -> TensorQuality:
    """Returns the counts of a tensor with so many elements; those that were not measured are implied zeros."""
    return TensorQuality(
        elements=elements,
        has_non_finite=summary.finite_count < summary.count,
        nan=summary.nan,
        pos_inf=summary.pos_inf,
        neg_inf=summary.neg_inf,
        zero=summary.zero + elements - summary.count,
        negative=summary.negative,
        positive=summary.positive,
    )


def quality_of_counts(elements: int, counts: Sequence[int]) -> TensorQuality:
    """Returns what CONCISE knows: numbers of NaN, +inf and -inf; or CURT: whether there is any of them."""
    if len(counts) == 1:
        return TensorQuality(elements=elements, has_non_finite=bool(counts[0]))
    nan, pos_inf, neg_inf = counts
    return TensorQuality(elements=elements, has_non_finite=any(counts), nan=nan, pos_inf=pos_inf, neg_inf=neg_inf)


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a view of an array through which it cannot be changed."""
    view: npt.NDArray[Any] = np.asarray(values).view()
    view.flags.writeable = False
    return view
