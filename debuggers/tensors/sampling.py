"""Chooses an exact share of the calls under each name, with no random numbers."""

from fractions import Fraction

from tracker_adapters.values.checked_values import Share, check_value

from debuggers.errors import DebuggerConfigError

REMEMBERED_NAMES = 10_000


class EvenSampling:
    """Takes of the first n calls under a name exactly ``ceil(n * rate)``, evenly spread, the first one included.

    The last 10,000 names are remembered; one that was longer unused starts anew.
    """

    def __init__(self, rate: float) -> None:
        """Sets the share; above 0 and at most 1.

        Raises:
            DebuggerConfigError: For any other value.
        """
        check_value("sampling_rate", rate, Share, DebuggerConfigError)
        # The decimal number is meant: as a binary fraction, 0.1 is a little more than a tenth.
        self._rate = Fraction(str(float(rate)))
        self._calls: dict[str, int] = {}

    def takes(self, name: str) -> bool:
        """Counts a call, and returns whether it is in the share."""
        calls = self._calls.pop(name, 0)
        self._calls[name] = calls + 1
        if len(self._calls) > REMEMBERED_NAMES:
            del self._calls[next(iter(self._calls))]
        part, whole = self._rate.numerator, self._rate.denominator
        # A line of this slope enters a new row of the grid, as in Bresenham's algorithm.
        return -(-calls * part // whole) < -(-(calls + 1) * part // whole)
