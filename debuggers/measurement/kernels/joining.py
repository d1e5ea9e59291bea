"""The compiled form of ``tracker_adapters.histograms.moments.join_moments``, for one pair of parts."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from tracker_adapters.compilation import OPTIONS

_compile = numba.njit(inline="always", **OPTIONS)  # a call would cost a block of 2,048 elements a hundredth of its time


@_compile
def join_mean_and_m2(  # noqa: PLR0917
    n_ours: float, mean: float, m2: float, n_theirs: float, other_mean: float, other_m2: float
) -> Any:
    """Returns mean and m2 of two parts by the pairwise formula; ``n_theirs`` is at least 1.

    Both means may be taken relative to one number. With ``n_ours`` 0, and 0 for its mean and m2, the other part is the
    result, as long as the square of its mean stays within float64.
    """
    share = n_theirs / (n_ours + n_theirs)
    delta = other_mean - mean
    both = mean + delta * share
    if not np.isfinite(both):  # means at the two ends of float64
        both = mean * (1 - share) + other_mean * share
    return both, m2 + (other_m2 + delta * delta * (n_ours * share))
