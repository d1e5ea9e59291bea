"""Reads the rows that a device made of tensors."""

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import N_BINS, SIGN_BIN, TALLIES

from debuggers.measurement.kernels.row_format import CODES, WORDS
from debuggers.measurement.summary_table import SummaryTable

_IS_BIN = np.arange(WORDS) < N_BINS
_IS_BIN[list(CODES.values())] = False


def read(rows: npt.NDArray[np.int32]) -> SummaryTable:
    """Turns rows, once on the host, into a table; see ``kernels.row_format``."""
    kinds = {name: rows[:, code].view(np.uint32).astype(np.int64) for name, code in CODES.items()}
    # Comparing first, and in one dimension, finds the few that are not zero ten times as fast.
    numbers = rows.reshape(-1)
    places = np.flatnonzero(numbers != 0)
    owners, bins = np.divmod(places, WORDS)
    has_bin = _IS_BIN[bins]
    owners, bins = owners[has_bin], bins[has_bin]
    counts = numbers[places[has_bin]].view(np.uint32).astype(np.int64)
    # Sums in float64, exact below 2**53.
    signs = np.bincount(2 * owners + bins // SIGN_BIN, counts, 2 * len(rows)).astype(np.int64)
    positive = signs[::2] + kinds["pos_overflow"] + kinds["pos_underflow"]
    negative = signs[1::2] + kinds["neg_overflow"] + kinds["neg_underflow"]
    finite = positive + negative + kinds["zero"]
    kinds["count"] = finite + kinds["nan"] + kinds["pos_inf"] + kinds["neg_inf"]
    low, high, mean, m2, l1 = np.ascontiguousarray(rows[:, N_BINS:]).view(np.float64).T
    # Adding zero makes -0.0 positive.
    moments = np.stack([low + 0.0, high + 0.0, mean, np.maximum(m2, 0.0)], axis=1)
    moments[finite == 0] = np.nan, np.nan, np.nan, 0.0
    return SummaryTable(
        HistogramColumns(
            tallies=np.stack([kinds[name] for name in TALLIES], axis=1),
            moments=moments,
            ends=np.cumsum(np.bincount(owners, minlength=len(rows))),
            bins=bins.astype(np.uint16),
            counts=counts,
        ),
        negative=negative,
        positive=positive,
        l1=l1.copy(),
        local_shard=np.zeros(len(rows), np.bool_),
    )
