"""The norm of all weights that are trained, or were: it stays comparable where some of them are frozen midway."""

import math

import numpy as np
import numpy.typing as npt


class WeightNorm:
    """Adds up the squares of all parameters that have had a gradient so far.

    Those without one at a step count with what they were after the last sampled step at which they had one: an
    optimizer leaves them as they are. Else a norm would fall by what it no longer counts, as if weights had shrunk.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._squares: npt.NDArray[np.float64] = np.zeros(0)
        self._others: dict[str, float] = {}

    def take(
        self, names: tuple[str, ...], squares: npt.NDArray[np.float64], after: npt.NDArray[np.float64] | None
    ) -> float:
        """Takes the sums of squares of the parameters with a gradient, in the order of their names.

        Args:
            names: The parameters.
            squares: Before the optimizer's step.
            after: After it, if known.

        Returns:
            The norm of these and of all earlier ones before the step; NaN or infinite where one of them is.
        """
        if names != self._names:
            self._others |= zip(self._names, self._squares.tolist(), strict=True)
            for name in names:
                self._others.pop(name, None)
            self._names = names
        self._squares = squares if after is None else after
        return math.sqrt(float(squares.sum()) + sum(self._others.values()))
