"""One statistic of many tensors over the steps, in bounded memory: what a heat map is reduced from."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

MAX_CELLS = 4_000_000
"""A cell takes nine bytes. A table of more steps has cells of 2, 4, 8 … steps."""
FINITE, NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY, NOT_FINITE = 1, 2, 4, 8, 16
"""What lies in a cell, as bits; ``NOT_FINITE`` where only roll-ups were read, which do not tell NaN from infinity."""
_LEAST_COLUMNS = 64
_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)

N = TypeVar("N", bound=np.generic)
Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of (tensors, columns).

    Attributes:
        first_steps: int64 (columns,): where each begins.
        span: How many steps each covers.
        low: float32 (tensors, columns): the smallest finite value in each cell, NaN where there is none.
        high: The largest.
        bits: uint8 (tensors, columns): what lies in each, 0 where nothing was measured.
    """

    first_steps: npt.NDArray[np.int64]
    span: int
    low: Floats
    high: Floats
    bits: Bits


@dataclass(slots=True)
class _Stored:
    """The cells in memory; replaced as a whole, so that another thread sees all of them or none."""

    shift: int
    low: Floats
    high: Floats
    bits: Bits


class LayerTable:
    """Values of a statistic: a row for each tensor, columns of equal numbers of steps from step 0 on.

    Joined cells keep the smallest and the largest value, and whether one was NaN or infinite. Values are kept as
    float32; what lies beyond its range becomes its largest or smallest number, and never infinite or zero.
    """

    def __init__(self, rows: int, *, shift: int = 0, max_cells: int = MAX_CELLS) -> None:
        """Makes an empty table; a column covers ``2**shift`` steps until there are too many."""
        self.rows = rows
        self.last_step = -1
        self._most_columns = max(_LEAST_COLUMNS, max_cells // max(rows, 1))
        self._stored = _Stored(shift, *_nothing(rows, _LEAST_COLUMNS))

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        stored = self._stored
        return stored.low.nbytes + stored.high.nbytes + stored.bits.nbytes

    def add(self, rows: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
        """Adds values (n,) of the tensors ``rows`` at ``steps``; all may be NaN or infinite."""
        bits = np.full(len(values), FINITE, np.uint8)
        bits[np.isnan(values)] = NAN
        bits[values == np.inf] = POSITIVE_INFINITY
        bits[values == -np.inf] = NEGATIVE_INFINITY
        self.add_ranges(rows, steps, values, values, bits)

    def add_ranges(
        self,
        rows: npt.NDArray[np.int64],
        steps: npt.NDArray[np.int64],
        low: npt.NDArray[np.float64],
        high: npt.NDArray[np.float64],
        bits: Bits,
    ) -> None:
        """Adds smallest and largest values (n,) with what lies there; both count where ``FINITE`` is set."""
        if not len(steps):
            return
        last = int(steps.max())
        self._reach(last)
        stored = self._stored
        cells = rows * stored.low.shape[1] + (steps >> stored.shift)
        known = (bits & FINITE) != 0
        np.fmin.at(stored.low.reshape(-1), cells[known], _narrowed(low[known]))
        np.fmax.at(stored.high.reshape(-1), cells[known], _narrowed(high[known]))
        np.bitwise_or.at(stored.bits.reshape(-1), cells, bits)
        self.last_step = max(self.last_step, last)

    def window(self, first: int, last: int, width: int) -> Cells:
        """Returns the cells from a step to another one, joined until at most ``width`` columns are left.

        Columns in which nothing was measured are left out.
        """
        stored = self._stored
        start, stop = max(first, 0) >> stored.shift, min(last, self.last_step) + (1 << stored.shift) >> stored.shift
        count = max(0, stop - start)
        joined = max(1, -(-count // max(width, 1)))
        starts = np.arange(0, count, joined)
        inside = np.s_[:, start : start + count]
        low, high, bits = stored.low[inside], stored.high[inside], stored.bits[inside]
        if joined > 1:
            low = np.fmin.reduceat(low, starts, axis=1)
            high = np.fmax.reduceat(high, starts, axis=1)
            bits = np.bitwise_or.reduceat(bits, starts, axis=1)
        kept = bits.any(axis=0)
        return Cells(
            first_steps=(start + starts[kept]).astype(np.int64) << stored.shift,
            span=joined << stored.shift,
            low=low[:, kept],
            high=high[:, kept],
            bits=bits[:, kept],
        )

    def _reach(self, last: int) -> None:
        """Makes room for a step: with more columns, or with columns of twice as many steps."""
        stored = self._stored
        while last >> stored.shift >= self._most_columns:
            (low, next_low), (high, next_high), (bits, next_bits) = (
                _halves(stored.low), _halves(stored.high), _halves(stored.bits)
            )  # fmt: skip
            joined = np.fmin(low, next_low), np.fmax(high, next_high), bits | next_bits
            stored = _Stored(stored.shift + 1, *joined)
        needed, columns = (last >> stored.shift) + 1, stored.low.shape[1]
        if needed > columns:
            more = min(max(needed, 2 * columns), self._most_columns) - columns
            low, high, bits = _nothing(self.rows, more)
            stored = _Stored(
                stored.shift,
                np.hstack([stored.low, low]),
                np.hstack([stored.high, high]),
                np.hstack([stored.bits, bits]),
            )
        self._stored = stored


def _halves(part: npt.NDArray[N]) -> tuple[npt.NDArray[N], npt.NDArray[N]]:
    """Every second column, and the columns after these; the last one again where their number is odd."""
    following = part[:, 1::2]
    return part[:, ::2], np.hstack([following, part[:, -1:]]) if part.shape[1] % 2 else following


def _nothing(rows: int, columns: int) -> tuple[Floats, Floats, Bits]:
    empty = np.full((rows, columns), np.nan, np.float32)
    return empty, empty.copy(), np.zeros((rows, columns), np.uint8)


def _narrowed(values: npt.NDArray[np.float64]) -> Floats:
    kept = np.clip(values, -_LARGEST, _LARGEST)
    tiny = (np.abs(kept) < _SMALLEST) & (kept != 0)
    if tiny.any():
        kept = np.where(tiny, np.copysign(_SMALLEST, kept), kept)
    return kept.astype(np.float32)
