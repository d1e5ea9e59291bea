"""The steps of a session: their numbers, which of them are measured, and what that costs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.stopwatch import Stopwatch
from stepscope.runs.live_run import run_of
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.governor import Governor, Overhead


class StepPacing:
    """Counts steps and their time, and decides by schedule and governor which steps are measured.

    A step lasts from the end of the one before it, or from ``start``, to its own ``close``.

    Attributes:
        stopwatch: Adds up the time in stepscope's code on the training thread.
        last: The number of the last step that was closed; -1 before the first.
        plain_s: How long that took without stepscope's code.
    """

    def __init__(self, config: DebugConfig, emitter: Emitter | None) -> None:
        """Takes the schedule and the limit, and a run, whose writer thread costs time too."""
        self.stopwatch = Stopwatch()
        self.last = -1
        self.plain_s = 0.0
        self._schedule = config.schedule
        self._governor = Governor(config.max_overhead)
        self._run = run_of(emitter)
        self._stride = 1
        self._told: int | None = None
        self._dense_until = 0
        self._granted = True
        self._boundary_s = self._spent_before_s = self._background_before_s = 0.0

    @property
    def next(self) -> int:
        """The number that the coming step has if its caller gives none: as far from the last as that from its own."""
        return self.last + self._stride

    def start(self) -> None:
        """Begins the time of the first step."""
        self._boundary_s = time.perf_counter()

    def grant(self, number: int) -> bool:
        """Decides whether the coming step may be measured, and returns whether it will be."""
        self._granted = self._governor.grants()
        return self.is_measured(number)

    def is_measured(self, number: int) -> bool:
        """Whether a step is due and was granted, or is to be measured whatever it costs."""
        return number < self._dense_until or (self._granted and self._schedule.is_due(number))

    def measure_densely(self, steps: int) -> None:
        """Has so many of the coming steps measured, whatever schedule and limit say."""
        self._dense_until = max(self._dense_until, self.next + self._stride * steps)

    def close(self, number: int, *, measured: bool) -> None:
        """Ends a step: ``plain_s`` is how long it took."""
        now = time.perf_counter()
        step_s, self._boundary_s = now - self._boundary_s, now
        background_s = 0.0 if self._run is None else self._run.background_seconds
        spent_s = self.stopwatch.seconds - self._spent_before_s + background_s - self._background_before_s
        self._spent_before_s, self._background_before_s = self.stopwatch.seconds, background_s
        self.plain_s = max(0.0, step_s - spent_s)
        self._governor.account(step_s, spent_s, due=self._schedule.is_due(number), measured=measured)
        self.count(number)

    def renumber(self, number: int) -> None:
        """Takes another number for the last step, from which those that come go on."""
        self._stride = max(1, number - self._told) if self._told is not None else 1
        self.last = self._told = number

    def count(self, number: int) -> None:
        """Takes the number of a step, whose time nobody wants to know."""
        self._stride = max(1, number - self.last)
        self.last = number

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Counts the time inside neither as a step's nor as overhead."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._boundary_s += time.perf_counter() - begun

    def overhead(self) -> Overhead:
        """Returns what watching cost so far."""
        return self._governor.overhead()
