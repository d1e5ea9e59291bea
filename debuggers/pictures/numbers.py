"""Numbers on their way into a picture: as arrays, counted where they have no place on an axis, binned, thinned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.arrays import as_array

Floats = npt.NDArray[np.float64]
LARGEST_RATIO = 1000.0
"""Positive values whose largest is more than this many times the smallest get a logarithmic scale."""


def as_floats(what: str, values: Any) -> Floats:
    """Returns an array, sequence or tensor on any device as float64 of its shape.

    Raises:
        ArtifactError: For complex, sparse, meta and non-numeric input; names ``what``.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of wider floats, and of signalling NaN
        return as_array(what, values).astype(np.float64)


def as_points(what: str, x: Any, y: Any) -> tuple[Floats, Floats]:
    """Returns both as float64 (n,).

    Raises:
        ArtifactError: When their lengths differ, or one of them is no sequence of numbers.
    """
    first, second = as_floats(f"{what}: x", x), as_floats(f"{what}: y", y)
    if first.ndim != 1 or first.shape != second.shape:
        raise ArtifactError(f"{what}: x has shape {first.shape} and y {second.shape}; expected one shape (n,)")
    return first, second


def as_table(what: str, values: Any, rows: Sequence[str], columns: Any) -> tuple[Floats, Floats]:
    """Returns values as float64 (rows, columns), and what their columns stand for as float64 (columns,).

    Raises:
        ArtifactError: When the shape does not fit the names of the rows and the columns.
    """
    table, places = as_floats(what, values), as_floats(f"{what}: steps", columns)
    if table.shape == (0,) and not len(rows):  # a list of no rows cannot say how many columns they have
        table = table.reshape(0, places.size)
    if table.shape != (len(rows), *places.shape) or places.ndim != 1:
        raise ArtifactError(
            f"{what}: values have shape {table.shape}; expected ({len(rows)}, {places.size}), "
            "a row for each layer and a column for each step"
        )
    return table, places


def non_finite_words(values: Floats) -> str:
    """Returns how many are NaN or infinite, such as ``3 NaN, 1 +inf``; empty if none is."""
    if np.isfinite(values).all():
        return ""
    counts = (("NaN", np.isnan(values)), ("+inf", values == np.inf), ("-inf", values == -np.inf))
    return ", ".join(f"{np.count_nonzero(mask):,} {name}" for name, mask in counts if mask.any())


def number_text(value: float) -> str:
    """Returns a number in at most 10 characters: with three significant digits, or as a whole below a million."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 999_999.5 else f"{value:.3g}"


def tick_texts(ticks: Floats) -> list[str]:
    """Returns numbers as texts, with as many digits as tell them apart, at most eight."""
    values = ticks.tolist()
    texts = [number_text(value) for value in values]
    for digits in range(4, 9):
        if len(set(texts)) == len(values):
            break
        texts = [f"{value:.{digits}g}" for value in values]
    return texts


def even_ticks(low: float, high: float, *, log: bool = False, most: int = 6) -> Floats:
    """Returns about ``most`` round numbers from ``low`` to ``high``: multiples of 1, 2 or 5 times a power of ten.

    On a logarithmic scale powers of ten, if it spans some. Where there are no two such numbers, the ends.
    """
    if not low < high:
        return np.array([low])
    ends, ticks = np.array([low, high]), np.empty(0)
    if log:
        powers = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        ticks = 10.0 ** powers[:: -(-len(powers) // (most + 1)) or 1]
    elif np.isfinite(room := high / most - low / most) and room > np.finfo(float).tiny * 10:
        power = 10.0 ** np.floor(np.log10(room))
        step = next(one * power for one in (10, 5, 2, 1) if one * power <= 1.4 * room)
        first, last = np.ceil(low / step), np.floor(high / step)
        ticks = step * np.arange(first, last + 1) if last - first <= 2 * most else ticks
    return ticks if len(ticks) > 1 else ends


def summary_words(values: Floats) -> str:
    """Returns how many values there are, their mean and standard deviation if finite ones exist, and what is not."""
    finite = values[np.isfinite(values)]
    words = [f"{values.size:,} value{'' if values.size == 1 else 's'}"]
    if finite.size:
        # Scaled first: sums and squares of values near the end of float64's range would be infinite.
        scale = float(np.abs(finite).max()) or 1.0
        scaled = finite / scale
        words += [
            f"mean {number_text(float(scaled.mean()) * scale)}",
            f"std {number_text(float(scaled.std()) * scale)}",
        ]
    return ", ".join([*words, *filter(None, [non_finite_words(values)])])


def binned(values: Floats, bins: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Returns the finite values in bins of equal width.

    Returns:
        ``(edges, counts)`` of shapes (n + 1,) and (n,). Equal values are one bin whose edges are equal; no finite
        value gives none.

    Raises:
        ArtifactError: If ``bins`` is not a positive integer.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise ArtifactError(f"bins is {bins!r}; expected a positive integer")
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.empty(0), np.empty(0, np.int64)
    # Of halves, since the span of float64's whole range would be infinite.
    halves = finite / 2
    low, span = float(halves.min()), float(halves.max() - halves.min())
    if not span > 0:
        return np.repeat(finite[:1], 2), np.array([finite.size])
    index = np.minimum(((halves - low) / span * bins).astype(np.int64), bins - 1)
    edges = (low + span * np.linspace(0, 1, bins + 1)) * 2
    return edges, np.bincount(index, minlength=bins)


def shares_between(values: Floats, low: float, high: float) -> Floats:
    """Returns where finite values lie between two limits, from 0 to 1; 0.5 where the limits are equal."""
    span = high / 2 - low / 2
    if not span > 0:
        return np.full(values.shape, 0.5)
    return (values / 2 - low / 2) / span


def fits_logarithm(values: Floats) -> bool:
    """Whether all finite values are positive, and spread so widely that only a logarithmic scale shows them."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and finite.min() > 0 and finite.max() / LARGEST_RATIO > finite.min())


def thinned(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """Returns at most ``most`` points that draw the same line: smallest, largest and first of each stretch.

    A stretch with a value that is not finite keeps one, so that its gap is seen.
    """
    if len(y) <= most:
        return x, y
    stretch = -(-len(y) * 4 // most)
    starts = np.arange(0, len(y), stretch)
    padded = np.resize(y, len(starts) * stretch)
    padded[len(y) :] = y[-1]
    blocks = padded.reshape(len(starts), stretch)
    finite = np.isfinite(blocks)
    picks = [
        np.zeros(len(starts), np.int64),
        np.where(finite, blocks, np.inf).argmin(1),
        np.where(finite, blocks, -np.inf).argmax(1),
        (~finite).argmax(1),
    ]
    kept = np.unique(np.minimum(np.concatenate([starts + pick for pick in picks]), len(y) - 1))
    return x[kept], y[kept]


def pooled(values: Floats, columns: int) -> Floats:
    """Returns (rows, n) values as (rows, at most ``columns``): of joined columns the largest.

    A joined column with a value that is not finite keeps it: infinities before NaN.
    """
    width = values.shape[1]
    if width <= columns:
        return values
    edges = np.linspace(0, width, columns + 1).astype(np.int64)[:-1]
    finite = np.where(np.isfinite(values), values, -np.inf)
    joined = np.maximum.reduceat(finite, edges, axis=1)
    for wrong in (np.isnan(values), values == -np.inf, values == np.inf):
        held = np.add.reduceat(wrong, edges, axis=1) > 0
        mark = values[wrong][0] if wrong.any() else 0.0
        joined = np.where(held, mark, joined)
    return joined
