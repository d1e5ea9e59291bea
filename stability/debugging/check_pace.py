"""When an expensive check is due: every so many steps, or as often as a share of the run's time allows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MEMORY = 0.3
"""The weight of the newest cost in the expected one."""


class CheckPace:
    """Paces one kind of check.

    With a share, each step earns that share of the time since the step before, and a check is due once what it is
    expected to cost has been earned; its cost is what the last ones took, the newest weighing 0.3. The first check
    comes at once, for its cost to be known, and is earned afterwards. So all checks together take the share, whatever
    a check costs, and a cheap one runs often.
    """

    def __init__(
        self, every: int, max_share: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Makes a pace whose first check is due at once.

        Args:
            every: The steps from one check to the next; without effect when there is a share.
            max_share: The share of the time that checks may take, from above 0 to 1.
            clock: Seconds, rising.
        """
        self.checks = 0
        self.steps = 0
        self.seconds = 0.0
        self._every, self._share, self._clock = every, max_share, clock
        self._earned = 0.0
        self._cost: float | None = None
        self._last: float | None = None
        self._inside = 0.0

    def step(self) -> bool:
        """Counts a step, and says whether a check is due at it."""
        now = self._clock()
        if self._share is None:
            due = self.steps % self._every == 0
        else:
            # The time of a check is none of the run's: it would earn itself.
            self._earned += 0.0 if self._last is None else self._share * max(0.0, now - self._last - self._inside)
            due = self._cost is None or self._earned >= self._cost
        self._last, self._inside = now, 0.0
        self.steps += 1
        return due

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Measures a check."""
        begun = self._clock()
        try:
            yield
        finally:
            self.spend(self._clock() - begun)

    def spend(self, seconds: float) -> None:
        """Takes what a check cost since the last ``step``."""
        self.checks += 1
        self.seconds += seconds
        self._inside += seconds
        self._earned -= seconds
        self._cost = seconds if self._cost is None else (1 - _MEMORY) * self._cost + _MEMORY * seconds
