"""Adds up series of many ranks step by step, in memory for a few of them."""

import numpy as np
import numpy.typing as npt

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


class StepColumns:
    """Columns by step, to which rank after rank is added; a step that is new gets a row of its own."""

    def __init__(self, *starts: float) -> None:
        """Takes the number with which each column begins."""
        self._starts = starts
        self.steps: Steps = np.empty(0, np.int64)
        self.columns: list[Values] = [np.empty(0) for _ in starts]

    def rows(self, steps: Steps) -> slice | Steps:
        """Returns where the steps' rows are; ``steps`` ascend, each once."""
        if len(steps) == len(self.steps) and (steps is self.steps or np.array_equal(steps, self.steps)):
            return slice(None)
        known = np.union1d(self.steps, steps) if len(self.steps) else steps.copy()
        if len(known) > len(self.steps):
            places = np.searchsorted(known, self.steps)
            for number, (column, start) in enumerate(zip(self.columns, self._starts, strict=True)):
                grown = np.full(len(known), start)
                grown[places] = column
                self.columns[number] = grown
            self.steps = known
        return np.searchsorted(self.steps, steps)


def unique_steps(steps: Steps, values: Values) -> tuple[Steps, Values]:
    """Returns a series with the last value of each step."""
    ascends = steps[1:] > steps[:-1]
    if ascends.all():
        return steps, values
    last = np.append(ascends, True)
    return steps[last], values[last]
