"""Joins the moments of parts to those of the whole."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.layout import M2, MAX, MEAN, MIN

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def join_moments(n_ours: Any, ours: Floats, n_theirs: Any, theirs: Floats) -> Floats:
    """Returns the moments of all elements of two parts, by the pairwise formula for mean and m2.

    Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983. Nothing overflows that the result
    does not: means may lie at the two ends of float64, and numbers of elements are multiplied by shares alone.

    Args:
        n_ours: How many finite elements stand behind ``ours``: int64 (...), or an integer.
        ours: float64 (..., 4), in the order of ``MOMENTS``. Where there is no element, the other part is the result.
        n_theirs: As ``n_ours``, for ``theirs``.
        theirs: As ``ours``.
    """
    joined = np.empty(ours.shape)
    np.fmin(ours[..., MIN], theirs[..., MIN], out=joined[..., MIN])
    np.fmax(ours[..., MAX], theirs[..., MAX], out=joined[..., MAX])
    mean, m2, other_mean, other_m2 = ours[..., MEAN], ours[..., M2], theirs[..., MEAN], theirs[..., M2]
    with np.errstate(over="ignore", invalid="ignore"):
        share = n_theirs / np.maximum(n_ours + n_theirs, 1)
        delta = other_mean - mean
        both = mean + delta * share
        joined[..., M2] = m2 + other_m2 + delta * delta * (n_ours * share)
        if not np.isfinite(both).all():
            both = np.where(np.isfinite(both), both, mean * (1 - share) + other_mean * share)
    joined[..., MEAN] = both
    for is_empty, other in ((np.equal(n_theirs, 0), ours), (np.equal(n_ours, 0), theirs)):
        if is_empty.any():
            joined[is_empty, MEAN:] = other[is_empty, MEAN:]
    return joined


def fold_moments(moments: Floats, finite: Integers, starts: Integers) -> Floats:
    """Returns the moments of groups of adjoining rows, joined in the order of the rows.

    Args:
        moments: float64 (n, 4).
        finite: int64 (n,): how many finite elements stand behind each row.
        starts: int64 (groups,): where each group begins; ascending.
    """
    total, held = moments[starts], finite[starts]
    sizes = np.diff(starts, append=len(moments))
    most = int(sizes.max(initial=1))
    least = int(sizes.min(initial=most))
    for turn in range(1, most):
        into = slice(None) if turn < least else np.flatnonzero(sizes > turn)
        rows = starts[into] + turn
        total[into] = join_moments(held[into], total[into], finite[rows], moments[rows])
        held[into] += finite[rows]
    return total
