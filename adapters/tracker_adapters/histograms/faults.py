"""Validates histogram columns, which may come from a file or from another producer."""

import numpy as np
import numpy.typing as npt

from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import MOMENTS, N_BINS, TALLIES

_DTYPES = {"tallies": np.int64, "moments": np.float64, "ends": np.int64, "bins": np.uint16, "counts": np.int64}


def fault_in(columns: HistogramColumns) -> tuple[int, str] | None:
    """Returns the first row that is no histogram and what is wrong with it, or None when all is well.

    Row -1 stands for a fault of the columns themselves: a dtype, a shape, or ends that do not ascend.
    """
    fault = _fault_of_form(columns)
    if fault is not None:
        return -1, fault
    if not len(columns):
        return None
    if columns.bins.size:
        if int(columns.bins.max()) >= N_BINS:
            return _at(columns, columns.bins >= N_BINS, f"bins must be below {N_BINS}")
        falls = (columns.bins[1:] <= columns.bins[:-1]).nonzero()[0] + 1
        inside = falls[columns.ends[np.searchsorted(columns.ends, falls)] != falls]
        if inside.size:
            return _row_of(columns, inside[0]), "bins must be ascending and distinct"
        if int(columns.counts.min()) < 1:
            return _at(columns, columns.counts < 1, "counts must be at least 1")
    if int(columns.tallies.min()) < 0:
        return int(np.flatnonzero((columns.tallies < 0).any(axis=1))[0]), "counts must not be negative"
    held = columns.tallies[:, 4:].sum(axis=1)
    starts = np.concatenate([[0], columns.ends[:-1]])
    filled = starts < columns.ends
    if columns.counts.size:
        held[filled] += np.add.reduceat(columns.counts, starts[filled])
    expected = columns.finite_counts
    (wrong,) = (held != expected).nonzero()
    if wrong.size:
        row = int(wrong[0])
        return row, (f"bins and zeros hold {held[row]} elements; expected count minus non-finite ones, {expected[row]}")
    return None


def _fault_of_form(columns: HistogramColumns) -> str | None:
    for name, dtype in _DTYPES.items():
        column = getattr(columns, name)
        if not isinstance(column, np.ndarray) or column.dtype != dtype:
            found = column.dtype if isinstance(column, np.ndarray) else type(column).__name__
            return f"{name} are {found}; expected an array of {np.dtype(dtype)}"
    n = columns.ends.size
    if columns.ends.ndim != 1 or (n and (int(columns.ends[0]) < 0 or (columns.ends[1:] < columns.ends[:-1]).any())):
        return "ends must be one-dimensional and ascending"
    last = int(columns.ends[-1]) if n else 0
    shapes = {"tallies": (n, len(TALLIES)), "moments": (n, len(MOMENTS)), "bins": (last,), "counts": (last,)}
    for name, shape in shapes.items():
        if getattr(columns, name).shape != shape:
            return f"{name} have shape {getattr(columns, name).shape}; expected {shape}"
    return None


def _at(columns: HistogramColumns, wrong: npt.NDArray[np.bool_], what: str) -> tuple[int, str]:
    return _row_of(columns, np.flatnonzero(wrong)[0]), what


def _row_of(columns: HistogramColumns, position: np.intp) -> int:
    return int(np.searchsorted(columns.ends, position, side="right"))
