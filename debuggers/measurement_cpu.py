"""Measures host memory with the compiled kernel. Importing this module imports numba.

The compiled code is kept in ``__pycache__`` beside the package, else in the user's own cache folder (numba's rule,
``NUMBA_CACHE_DIR`` overrides it): a process compiles only when neither has it.
"""

from __future__ import annotations

import logging
import time

import numba
import numpy as np

from debuggers import measurement_kernel
from debuggers.tensor_summary import TensorSummary

if numba.config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set")

_log = logging.getLogger(__name__)
_BINS = 4096
_VIEWS = {"float32": ("float32", "int32", "uint32"), "float64": ("float64", "int64", "uint64")}

try:
    _measure = numba.njit(cache=True, **measurement_kernel.OPTIONS)(measurement_kernel.measure)
except RuntimeError:  # no folder is writable
    _measure = numba.njit(**measurement_kernel.OPTIONS)(measurement_kernel.measure)


def summarize(addresses: list[int], lengths: list[int], dtype: str) -> list[TensorSummary]:
    """Measures host memory: one summary for each address, in order.

    Args:
        addresses: Where each contiguous tensor starts; the caller keeps them alive.
        lengths: Elements of each, below 2**32.
        dtype: ``"float32"`` or ``"float64"``, of all of them.
    """
    n = len(addresses)
    rows = np.zeros((n, 10), np.int64)
    moments = np.empty((n, 5))
    ends = np.empty(n, np.int64)
    sizes = np.array(lengths, np.int64)
    room = int(np.minimum(sizes, _BINS).sum())
    bins, counts = np.empty(room, np.uint16), np.empty(room, np.int64)
    likes = [np.empty(0, kind) for kind in _VIEWS[dtype]]
    compiled, begun = len(_measure.signatures), time.perf_counter()
    _measure(np.array(addresses, np.int64), sizes, *likes, rows, moments, ends, bins, counts)
    if len(_measure.signatures) > compiled:
        _log.info("the %s kernel was compiled, or loaded, in %.2f s", dtype, time.perf_counter() - begun)
    summaries = []
    start = 0
    # By columns: a list for each of many tensors would make the garbage collector walk everything.
    tallies, floats = zip(*rows.T.tolist(), strict=True), zip(*moments.T.tolist(), strict=True)
    for count, row, moment, end in zip(lengths, tallies, floats, ends.tolist(), strict=True):
        summaries.append(
            TensorSummary(
                count=count, nan=row[0], pos_inf=row[1], neg_inf=row[2], zero=row[3], negative=row[4], positive=row[5],
                pos_overflow=row[6], neg_overflow=row[7], pos_underflow=row[8], neg_underflow=row[9],
                min=moment[0], max=moment[1], mean=moment[2], m2=moment[3], l1=moment[4],
                # Copies: a summary that is kept must not keep those of all other tensors.
                bins=bins[start:end].copy(), counts=counts[start:end].copy(),
            )
        )  # fmt: skip
        start = end
    return summaries
