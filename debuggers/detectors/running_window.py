"""Mean and spread of the last values of a series, in plain numbers, because rules of every step use them."""

import math
from collections import deque
from collections.abc import Iterator


class RunningWindow:
    """The last ``size`` values with their mean and standard deviation; memory is bounded.

    Sums are kept of differences from a value of the window, and made anew after each ``size`` values, so that they stay
    exact for a series of any length, and for a mean far above the spread.
    """

    __slots__ = ("_shift", "_squares", "_sum", "_until_anew", "_values", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: deque[float] = deque(maxlen=size)
        self._shift = self._sum = self._squares = 0.0
        self._until_anew = size

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    @property
    def is_full(self) -> bool:
        """Whether it holds ``size`` values."""
        return len(self._values) == self.size

    @property
    def mean(self) -> float:
        """Their mean; there must be one."""
        return self._shift + self._sum / len(self._values)

    @property
    def std(self) -> float:
        """Their sample standard deviation; 0 for one value."""
        points = len(self._values)
        if points < 2:
            return 0.0
        return math.sqrt(max(0.0, (self._squares - self._sum * self._sum / points) / (points - 1)))

    def push(self, value: float) -> None:
        """Adds a finite value, and drops the oldest of a full window."""
        if not self._values:
            self._shift = value
        elif len(self._values) == self.size:
            oldest = self._values[0] - self._shift
            self._sum -= oldest
            self._squares -= oldest * oldest
        self._values.append(value)
        difference = value - self._shift
        self._sum += difference
        self._squares += difference * difference
        self._until_anew -= 1
        if not self._until_anew:
            self._make_anew()

    def _make_anew(self) -> None:
        self._until_anew = self.size
        self._shift = value = self._values[0]
        differences = [other - value for other in self._values]
        self._sum = math.fsum(differences)
        self._squares = math.fsum(difference * difference for difference in differences)
