"""Reads the rows that a device made of tensors."""

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import N_BINS, OVERFLOW_BIN, SIGN_BIN, TALLIES

from debuggers.measurement.kernels.row_format import CODES
from debuggers.measurement.summary_table import SummaryTable

_IS_BIN = ~np.isin(np.arange(N_BINS), list(CODES.values()))


def read(rows: npt.NDArray[np.int32]) -> SummaryTable:
    """Turns rows, once on the host, into a table; see ``kernels.row_format``."""
    counts = rows[:, :N_BINS].view(np.uint32)
    kinds = {name: counts[:, code].astype(np.int64) for name, code in CODES.items()}
    positive, negative = (
        counts[:, first : first + OVERFLOW_BIN + 1].sum(axis=1, dtype=np.int64) for first in (0, SIGN_BIN)
    )
    positive += kinds["pos_underflow"]
    negative += kinds["neg_underflow"]
    finite = positive + negative + kinds["zero"]
    kinds["count"] = finite + kinds["nan"] + kinds["pos_inf"] + kinds["neg_inf"]
    low, high, mean, m2, l1 = np.ascontiguousarray(rows[:, N_BINS:]).view(np.float64).T
    # Adding zero makes -0.0 positive.
    moments = np.stack([low + 0.0, high + 0.0, mean, np.maximum(m2, 0.0)], axis=1)
    moments[finite == 0] = np.nan, np.nan, np.nan, 0.0
    owners, bins = np.nonzero(counts)
    has_bin = _IS_BIN[bins]
    owners, bins = owners[has_bin], bins[has_bin]
    return SummaryTable(
        HistogramColumns(
            tallies=np.stack([kinds[name] for name in TALLIES], axis=1),
            moments=moments,
            ends=np.cumsum(np.bincount(owners, minlength=len(rows))),
            bins=bins.astype(np.uint16),
            counts=counts[owners, bins].astype(np.int64),
        ),
        negative=negative,
        positive=positive,
        l1=l1.copy(),
        local_shard=np.zeros(len(rows), np.bool_),
    )
