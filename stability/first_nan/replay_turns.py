"""Decides which faulty steps are repeated: a run that has gone to NaN stays there, and one answer is enough."""

from __future__ import annotations


class ReplayTurns:
    """Asks for the first step of each fault, and for one step at most in a number of steps."""

    def __init__(self, steps_between: int) -> None:
        self._steps_between = steps_between
        self._was_faulty = False
        self._last: int | None = None

    def is_due(self, step: int, *, faulty: bool) -> bool:
        """Takes a step, and returns whether it is to be repeated."""
        begins = faulty and not self._was_faulty
        self._was_faulty = faulty
        if not begins or (self._last is not None and 0 <= step - self._last < self._steps_between):
            return False
        self._last = step
        return True
