"""Which steps of a run are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tracker_adapters.values.checked_values import Share, at_least, check_value

from stepscope.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps to measure; ``is_due`` is a function of the step alone, so that all ranks agree.

    Attributes:
        every: Every n-th step from ``start`` on.
        start: The first step.
        end: The step before which measuring ends; None for never.
        dense_until: Before this step ``every`` does not count: a dense warm-up, sparse afterwards.
        steps: If given, exactly these steps, and nothing else counts.
    """

    every: int = 1
    start: int = 0
    end: int | None = None
    dense_until: int = 0
    steps: Iterable[int] | None = None

    def __post_init__(self) -> None:
        check_value("schedule: every", self.every, at_least(1), ConfigError)
        check_value("schedule: start", self.start, at_least(0), ConfigError)
        check_value("schedule: dense_until", self.dense_until, at_least(0), ConfigError)
        if self.end is not None:
            check_value("schedule: end", self.end, at_least(self.start + 1), ConfigError)
        if self.steps is not None:
            chosen = frozenset(self.steps)
            for step in chosen:
                check_value("schedule: steps", step, at_least(0), ConfigError)
            object.__setattr__(self, "steps", chosen)

    @classmethod
    def of_rate(cls, rate: float) -> Schedule:
        """Returns the schedule that measures at least a share of the steps: 0.1 is every tenth, 0.3 every third.

        Raises:
            ConfigError: Unless ``rate`` is above 0 and at most 1.
        """
        check_value("sampling_rate", rate, Share, ConfigError)
        # The tolerance keeps 1 / (1 / n) at n.
        return cls(every=math.floor(1 / rate + 1e-9))

    def is_due(self, step: int) -> bool:
        """Whether a step is measured."""
        if self.steps is not None:
            return step in self.steps
        if step < self.start or (self.end is not None and step >= self.end):
            return False
        return step < self.dense_until or (step - self.start) % self.every == 0
