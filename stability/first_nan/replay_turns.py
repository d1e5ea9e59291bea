"""Decides which faulty steps are repeated: a run that has gone to NaN stays there, and one answer is enough."""

from __future__ import annotations

MOST_TRIES = 3
"""Repetitions without an answer, one after another, before there is a pause as after an answer."""


class ReplayTurns:
    """Asks for the first step of each fault, and after an answer for none in a number of steps.

    A repetition without an answer is tried again at the next faulty step, whether that begins a fault or goes on with
    it.
    """

    def __init__(self, steps_between: int) -> None:
        self._steps_between = steps_between
        self._was_faulty = False
        self._tries = 0
        self._last: int | None = None

    def is_due(self, step: int, *, faulty: bool) -> bool:
        """Takes a step, and returns whether it is to be repeated; ``done`` says what came of it."""
        begins = faulty and (not self._was_faulty or self._tries > 0)
        self._was_faulty = faulty
        return begins and (self._last is None or not 0 <= step - self._last < self._steps_between)

    def done(self, step: int, *, answered: bool) -> None:
        """Says whether the repetition of a step had an answer."""
        self._tries = 0 if answered else self._tries + 1
        if answered or self._tries == MOST_TRIES:
            self._tries = 0
            self._last = step
