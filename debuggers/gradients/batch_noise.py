"""How much noisier a step's gradients are because its batch is smaller than usual, such as the last of an epoch."""

import math

_KEPT = 1000


class BatchNoise:
    """Knows the steps with smaller batches; the last 1,000 of them.

    The mean of n independent gradients has a standard deviation of σ / √n: of one row left over from batches of 64 it
    is 8 times as large. The usual size is that of the last two steps in a row with as many rows.
    """

    def __init__(self) -> None:
        self._usual = self._last = 0
        self._factors: dict[int, float] = {}

    def note(self, step: int, rows: int) -> None:
        """Takes the number of rows of a step; 0 where it is not known."""
        if rows == self._last:
            self._usual = rows
        self._last = rows
        if 0 < rows < self._usual:
            self._factors[step] = math.sqrt(self._usual / rows)
            if len(self._factors) > _KEPT:
                del self._factors[next(iter(self._factors))]

    def factor(self, step: int) -> float:
        """Returns how many times as large as usual the noise of a step's gradients is; 1 where it is not known."""
        return self._factors.get(step, 1.0)
