"""A series too long to be read for each question: its roll-ups, or the part of it that is asked for."""

from dataclasses import dataclass

import numpy as np
from tracker_adapters.store.reading.record import RowsWanted, RunRecord, ScalarRanges

from stepscope.viewer.answers.reduction import Floats, shift_for
from stepscope.viewer.watched_series import Series

MOST_READ = 200_000
"""Values that are read to answer one question: a tenth of a second."""
_MOST_RANGES = 4096
_SAMPLES = 256
_PRIMES = (1, 101, 1009, 10_007, 100_003, 1_000_003)
"""Every so manieth number is looked at for its time; a prime, since series of a run take turns in even patterns."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a series goes: its values of all attempts, and its first and last step."""

    count: int
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class LongSeries:
    """What a long series has between two steps: ``part`` where it is short enough to be read, else ``ranges``."""

    extent: Extent
    last_seq: int
    span: int
    part: Series | None = None
    ranges: dict[str, Floats] | None = None


def long_series(
    record: RunRecord, of: tuple[str, int], steps: tuple[float, float], width: int, most_read: int = MOST_READ
) -> LongSeries | None:
    """Returns what there is of a scalar between two steps; None where all of it is short enough to be read.

    Args:
        record: The run.
        of: The scalar's name and the rank.
        steps: The first and the last step.
        width: The most ranges.
        most_read: The most values that are read.

    Raises:
        ArtifactError: When the run has no scalar of that name.
    """
    name, rank = of
    fine = record.scalar_ranges(name, rank, max_ranges=_MOST_RANGES)
    count = int(fine.counts.sum())
    if count <= most_read:
        return None
    extent = Extent(count, int(fine.first_steps[0]), int(fine.last_steps.max()))
    inside = _inside(fine, steps)
    first, last = max(int(steps[0]), extent.first_step), int(min(steps[1], extent.last_step))
    if int(fine.counts[inside].sum()) <= most_read:
        rows = record.scalar_rows(name, rank, RowsWanted(first, last))
        if rows.compacted.any() and len(np.unique(rows.attempts)) > 1:
            rows = record.scalar_rows(name, rank)  # what a compacted attempt replaces is seen by all of its steps
        return LongSeries(extent, rows.last_seq, 1, part=Series.of(rows))
    shift = shift_for(first, last, width)
    in_all = (extent.last_step >> shift) - (extent.first_step >> shift) + 1
    ranges = record.scalar_ranges(name, rank, max_ranges=in_all)
    prime = max((one for one in _PRIMES if one * _SAMPLES <= count), default=1)
    samples = record.scalar_rows(name, rank, RowsWanted(first, last, sample=prime))
    return LongSeries(extent, samples.last_seq, ranges.span, ranges=_columns(ranges, steps, Series.of(samples)))


def _inside(ranges: ScalarRanges, steps: tuple[float, float]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]] = (ranges.last_steps >= steps[0]) & (
        ranges.first_steps <= steps[1]
    )
    return chosen


def _columns(ranges: ScalarRanges, steps: tuple[float, float], samples: Series) -> dict[str, Floats]:
    """The roll-ups between two steps; NaN and infinities are told apart by the values themselves."""
    inside = _inside(ranges, steps)
    firsts, lasts = ranges.first_steps[inside], ranges.last_steps[inside]
    where = np.searchsorted(firsts, samples.steps, side="right") - 1

    def counted(found: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
        chosen = where[found & (where >= 0)]
        return np.bincount(chosen, minlength=len(firsts)).astype(np.float64)

    last = ranges.last[inside]
    return {
        "step": firsts.astype(np.float64),
        "last_step": lasts.astype(np.float64),
        "time_ms": _times(samples, firsts),
        "last_time_ms": _times(samples, lasts),
        "min": ranges.min[inside],
        "max": ranges.max[inside],
        "last": np.where(np.isfinite(last), last, np.nan),
        "count": ranges.counts[inside].astype(np.float64),
        "nan": counted(np.isnan(samples.values)),
        "pinf": counted(samples.values == np.inf),
        "ninf": counted(samples.values == -np.inf),
    }


def _times(samples: Series, steps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    if not len(samples.steps):
        return np.full(len(steps), np.nan)
    return np.interp(steps, samples.steps, samples.times_ms)
