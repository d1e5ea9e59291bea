"""The last values of several statistics of many names: one array, bounded, written with one assignment a step."""

import numpy as np
import numpy.typing as npt

from debuggers.measurement.name_index import Rows

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class SeriesRing:
    """Keeps the newest ``length`` steps; memory is ``8 * statistics * length * names`` bytes, at most twice that.

    A cell that was written holds its value, NaN included; ``present`` tells it from a cell that was not.
    """

    def __init__(self, statistics: int, length: int) -> None:
        self._length = length
        self._values = np.empty((statistics, length, 0), np.float64)
        self._present = np.empty((length, 0), np.bool_)
        self._steps = np.zeros(length, np.int64)
        self._slot_of: dict[int, int] = {}
        self._opened = 0

    def __len__(self) -> int:
        return min(self._opened, self._length)

    def write(self, step: int, rows: Rows, values: Floats, names: int) -> int:
        """Writes one step's values and returns the slot; a step that is still held is filled in.

        Args:
            step: The training step.
            rows: Where the values belong.
            values: float64 (statistics, rows).
            names: How many rows there are by now.
        """
        self._grow(names)
        slot = self._slot_of.get(step)
        if slot is None:
            slot = self._open(step)
        self._values[:, slot, rows] = values
        self._present[slot, rows] = True
        return slot

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """The held steps, in order of arrival."""
        return self._steps[self.order]

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """The slots, in order of arrival."""
        if self._opened <= self._length:
            return np.arange(self._opened)
        return (np.arange(self._length) + self._opened) % self._length

    def window(self, statistic: int, names: int) -> Floats:
        """Returns a copy of one statistic, shape (steps, names): NaN where nothing was written."""
        self._grow(names)
        return self._values[statistic, self.order, :names]

    def present(self, names: int) -> Bools:
        """Returns which cells were written, shape (steps, names)."""
        self._grow(names)
        return self._present[self.order, :names]

    def _open(self, step: int) -> int:
        slot = self._opened % self._length
        if self._opened >= self._length:
            del self._slot_of[int(self._steps[slot])]
        self._opened += 1
        self._slot_of[step] = slot
        self._steps[slot] = step
        self._values[:, slot] = np.nan
        self._present[slot] = False
        return slot

    def _grow(self, names: int) -> None:
        capacity = self._present.shape[1]
        if names <= capacity:
            return
        # The first step usually brings all names; twice the size keeps names that come one by one cheap.
        size = names if capacity == 0 else max(names, 2 * capacity)
        values = np.full((*self._values.shape[:2], size), np.nan)
        present = np.zeros((self._length, size), np.bool_)
        values[:, :, :capacity] = self._values
        present[:, :capacity] = self._present
        self._values, self._present = values, present
