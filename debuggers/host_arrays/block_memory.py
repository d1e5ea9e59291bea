"""Memory for the arrays of pages, in large blocks, which the system can back with huge pages and free as a whole."""

import math
import threading
import weakref
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 34 << 20
"""glibc's malloc gives blocks beyond 32 MB back to the system at once, whatever lies beside them."""
_ALIGNMENT = 64


class Empty(Protocol):
    """Makes arrays with arbitrary values, as ``numpy.empty`` does."""

    def __call__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, /) -> npt.NDArray[Any]:
        """Returns a C-contiguous array."""


class PageMemory:
    """Hands out memory for arrays that are made together and dropped together, as those of a page are.

    Small arrays share a block, which lives as long as one of them: each owner of pages needs a memory of its own, or
    the arrays of a page that fills slowly would hold the blocks of one that fills fast.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: weakref.ref[npt.NDArray[np.uint8]] | None = None
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Returns a C-contiguous array with arbitrary values; may be called from any thread."""
        size = np.dtype(dtype).itemsize * math.prod(shape)
        if not 0 < size <= BLOCK_BYTES // 8:
            return np.empty(shape, dtype)
        with self._lock:
            block = self._block() if self._block is not None else None
            if block is None or self._used + size > block.size:
                block, self._used = np.empty(BLOCK_BYTES, np.uint8), 0
                self._block = weakref.ref(block)
            start = self._used
            self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return block[start : start + size].view(dtype).reshape(shape)
