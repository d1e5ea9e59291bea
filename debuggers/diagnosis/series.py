"""Series of a training's signals in bounded memory."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FIRST_KEPT = 512
"""Points at the beginning of a series that are never thinned: causes show in the first steps."""
MOST_LATER = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One signal over the steps.

    Attributes:
        steps: int64 (n,), ascending.
        values: float64 (n,); NaN and infinities are values.
    """

    steps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def first(self) -> float:
        """The first value; NaN if there is none."""
        return float(self.values[0]) if len(self) else np.nan

    @property
    def last(self) -> float:
        """The last value; NaN if there is none."""
        return float(self.values[-1]) if len(self) else np.nan

    @property
    def first_step(self) -> int:
        """The step of the first value.

        Raises:
            IndexError: There is none.
        """
        return int(self.steps[0])

    def median(self, otherwise: float = np.nan) -> float:
        """Returns the median of the values, and what is given if there are none."""
        return float(np.median(self.values)) if len(self) else otherwise

    def late(self, fewest: int = 1) -> "Series":
        """Returns the last third of the points, or so many if it has fewer."""
        start = max(0, len(self) - max(fewest, len(self) // 3))
        return Series(self.steps[start:], self.values[start:])

    def until(self, step: int) -> "Series":
        """Returns the points up to a step, and that one."""
        end = int(np.searchsorted(self.steps, step, "right"))
        return Series(self.steps[:end], self.values[:end])

    def since(self, step: int) -> "Series":
        """Returns the points from a step on."""
        start = int(np.searchsorted(self.steps, step, "left"))
        return Series(self.steps[start:], self.values[start:])

    @property
    def finite(self) -> "Series":
        """The points that are finite."""
        known = np.isfinite(self.values)
        return Series(self.steps[known], self.values[known])


EMPTY = Series(np.empty(0, np.int64), np.empty(0))


class SeriesLog:
    """Adds points to many series.

    Of each series the first 512 points are kept, and of later ones at most 2,048: when they are more, every second is
    dropped, and from then on only every second, fourth, eighth … point is taken. The last point is always kept.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def add(self, step: int, name: str, value: float) -> None:
        """Adds a point to a series; a step that is not after its last one is left out."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = _Column()
        column.add(step, value)

    def series(self) -> dict[str, Series]:
        """Returns all series so far."""
        return {name: column.series() for name, column in self._columns.items()}


def thinned(steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> Series:
    """Returns what a ``SeriesLog`` keeps of the points of one series, whose steps do not fall."""
    rising = np.ones(len(steps), np.bool_)
    rising[1:] = steps[1:] > steps[:-1]
    steps, values = steps[rising], values[rising]
    later, stride = len(steps) - FIRST_KEPT, 1
    while -(-later // stride) > MOST_LATER:
        stride *= 2
    kept = np.ones(len(steps), np.bool_)
    if stride > 1:
        kept[FIRST_KEPT:-1] = np.arange(later - 1) % stride == 0
    return Series(steps[kept], values[kept])


class _Column:
    __slots__ = ("_count", "_last", "_stride", "first", "later")

    def __init__(self) -> None:
        self.first: list[tuple[int, float]] = []
        self.later: list[tuple[int, float]] = []
        self._last: tuple[int, float] | None = None
        self._stride, self._count = 1, 0

    def add(self, step: int, value: float) -> None:
        if self._last is not None and step <= self._last[0]:
            return
        self._last = (step, value)
        if len(self.first) < FIRST_KEPT:
            self.first.append(self._last)
            return
        if self._count % self._stride == 0:
            self.later.append(self._last)
            if len(self.later) > MOST_LATER:
                self.later = self.later[::2]
                self._stride *= 2
        self._count += 1

    def series(self) -> Series:
        points = self.first + self.later
        if self._last is not None and points[-1] != self._last:
            points = [*points, self._last]
        steps, values = zip(*points, strict=True)
        return Series(np.array(steps, np.int64), np.array(values, np.float64))
