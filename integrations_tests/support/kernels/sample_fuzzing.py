"""Random samples for the compiled code, compared with what NumPy finds; see ``kernel_fuzzing``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

COLUMNS = [1, 2, 3, 7, 8, 9, 64, 129, 1000]


def check(kernels: Any, random: np.random.Generator, arrays: Sequence[Any]) -> int:
    """Describes arrays as matrices, and gathers some of their elements; returns how many were described."""
    wide = [int(random.choice([*COLUMNS, max(array.size, 1)])) for array in arrays]
    matrices = [
        one[: one.size // columns * columns].reshape(-1, columns) for one, columns in zip(arrays, wide, strict=True)
    ]
    filled = [one for one in matrices if one.size]
    table = np.array([(one.ctypes.data, one.itemsize == 8, *one.shape) for one in filled], np.int64)
    found = np.frombuffer(kernels.samples(table)).reshape(-1, 4)
    for row, matrix in zip(found, filled, strict=True):
        exact = matrix.astype(np.float64)
        with np.errstate(all="ignore"):
            expected = [(exact == 0).sum() / exact.size, exact.mean(), exact.std(), exact.std(axis=0).mean()]
        np.testing.assert_array_equal(row, expected, strict=True)

    shares = np.minimum(random.random(random.integers(0, 70)), random.choice([0.5, np.nextafter(1, 0)]))
    gathered = [np.zeros(0)]
    for one in arrays:
        places = np.minimum((shares * one.size).astype(np.int64), one.size - 1)
        gathered.append(one[places if one.size > len(places) else slice(None)].astype(np.float64))
    table = np.array([(one.ctypes.data, one.itemsize == 8, one.size) for one in arrays], np.int64)
    np.testing.assert_array_equal(np.frombuffer(kernels.gather(table, shares)), np.concatenate(gathered))
    return len(filled)
