"""Sums over many executions of the same thing, of constant size."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerTotals:
    """How long a timer ran, over all its runs.

    Attributes:
        count: Number of runs that ended.
        total_s: Sum of their durations, in seconds of wall time.
        min_s: The shortest, in seconds.
        max_s: The longest, in seconds.
    """

    count: int
    total_s: float
    min_s: float
    max_s: float

    @property
    def mean_s(self) -> float:
        """Mean duration, in seconds; NaN before the first run."""
        return self.total_s / self.count if self.count else math.nan

    def plus(self, seconds: float) -> "TimerTotals":
        """Returns the totals with one more run."""
        return TimerTotals(
            count=self.count + 1,
            total_s=self.total_s + seconds,
            min_s=min(self.min_s, seconds),
            max_s=max(self.max_s, seconds),
        )


NO_RUNS = TimerTotals(count=0, total_s=0.0, min_s=math.inf, max_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTotals:
    """What the executions of a layer took, as the loop told it.

    Attributes:
        name: The layer's name.
        kind: Its type, such as ``TransformerBlock``; the last one told.
        count: Number of executions.
        forward_s: Sum of the forward times, in seconds.
        backward_s: Sum of the backward times, in seconds, of the executions that had one.
        backward_count: Number of these.
        peak_memory_bytes: The largest memory told; None if none was.
        parameters: Number of parameters, the last one told; None if none was.
    """

    name: str
    kind: str
    count: int = 0
    forward_s: float = 0.0
    backward_s: float = 0.0
    backward_count: int = 0
    peak_memory_bytes: float | None = None
    parameters: int | None = None

    @property
    def total_s(self) -> float:
        """Forward and backward time together, in seconds."""
        return self.forward_s + self.backward_s
