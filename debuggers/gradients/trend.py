"""Trends that are robust to outliers: of norms over steps, and over the depth of a network."""

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from debuggers.detectors.observation import Floats

_CHANGE = 0.5
_MIN_PAIRS = 5


class Trend(StrEnum):
    """Where a norm goes over the history; half a decade is a factor of about 3."""

    RISING = "rising"
    FALLING = "falling"
    STEADY = "steady"
    UNKNOWN = "unknown"


def log_norms(norms: Floats) -> Floats:
    """Returns log10 of norms; NaN where a norm is zero or not finite."""
    usable = (norms > 0) & (norms < np.inf)
    return np.log10(norms, out=np.full(norms.shape, np.nan), where=usable)


def robust_slopes(positions: npt.ArrayLike, values: Floats, *, min_pairs: int = _MIN_PAIRS) -> Floats:
    """Returns the slope of each column of values over positions, by Theil's incomplete method (Theil, 1950).

    The slope is the median of (y[i + h] - y[i]) / (x[i + h] - x[i]) over the first half of the points, with h half of
    their number: up to 29 % of outliers cannot make it arbitrary, and its cost grows linearly.

    Args:
        positions: (points,), the same for all columns.
        values: float64 (points, columns); pairs with NaN do not count.
        min_pairs: Columns with fewer pairs have slope NaN.

    Returns:
        float64 (columns,).
    """
    x = np.asarray(positions, np.float64)
    half = (len(x) + 1) // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (values[half:] - values[: len(x) - half]) / (x[half:] - x[: len(x) - half])[:, np.newaxis]
    slopes[~np.isfinite(slopes)] = np.nan
    enough = np.isfinite(slopes).sum(axis=0) >= min_pairs
    result = np.full(values.shape[1], np.nan)
    if enough.any():
        result[enough] = np.nanmedian(slopes[:, enough], axis=0)
    return result


def trend_of(decades: float) -> Trend:
    """Names a change of log10 norm over the history: steady within half a decade; unknown for NaN."""
    if np.isnan(decades):
        return Trend.UNKNOWN
    if abs(decades) <= _CHANGE:
        return Trend.STEADY
    return Trend.RISING if decades > 0 else Trend.FALLING
