"""Reduces a series to what a line of some pixels needs, so that no extreme, NaN or infinity is lost."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def shift_for(first_step: int, last_step: int, width: int) -> int:
    """Returns the binary logarithm of the span of at most ``width`` ranges, aligned to their span.

    So a range keeps its steps while a chart is panned.
    """
    shift = 0
    while (last_step >> shift) - (first_step >> shift) >= width:
        shift += 1
    return shift


def reduced(steps: npt.NDArray[np.int64], times_ms: Floats, values: Floats, width: int) -> dict[str, Floats]:
    """Returns columns of at most ``width`` ranges of steps, of float64 (m,).

    Args:
        steps: Steps in ascending order, int64 (n,), n > 0.
        times_ms: When each was recorded, float64 (n,).
        values: The values, float64 (n,); NaN and infinities are counted, and left out of all else.
        width: The most ranges, at least 1.
    """
    shift = shift_for(int(steps[0]), int(steps[-1]), width)
    buckets = steps >> shift
    starts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
    ends = np.append(starts[1:], len(steps)) - 1
    is_finite = np.isfinite(values)
    finite = np.where(is_finite, values, np.nan)
    counts = np.add.reduceat(is_finite, starts, dtype=np.int64)
    none = counts == 0
    places = np.arange(len(steps))
    firsts = np.minimum.reduceat(np.where(is_finite, places, len(steps)), starts)
    lasts = np.maximum.reduceat(np.where(is_finite, places, -1), starts)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        means = np.add.reduceat(np.where(is_finite, values, 0.0), starts) / counts
    return {
        "step": steps[starts].astype(np.float64),
        "last_step": steps[ends].astype(np.float64),
        "time_ms": times_ms[starts],
        "last_time_ms": times_ms[ends],
        "min": np.fmin.reduceat(finite, starts),
        "max": np.fmax.reduceat(finite, starts),
        "first": np.where(none, np.nan, finite[np.minimum(firsts, len(steps) - 1)]),
        "last": np.where(none, np.nan, finite[lasts]),
        "mean": means,
        "count": np.diff(np.append(starts, len(steps))).astype(np.float64),
        "nan": np.add.reduceat(np.isnan(values), starts, dtype=np.float64),
        "pinf": np.add.reduceat(values == np.inf, starts, dtype=np.float64),
        "ninf": np.add.reduceat(values == -np.inf, starts, dtype=np.float64),
    }
