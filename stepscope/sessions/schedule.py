"""Which steps of a run are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

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
        _check("every", self.every, 1)
        _check("start", self.start, 0)
        _check("dense_until", self.dense_until, 0)
        if self.end is not None:
            _check("end", self.end, self.start + 1)
        if self.steps is not None:
            chosen = frozenset(self.steps)
            for step in chosen:
                _check("steps", step, 0)
            object.__setattr__(self, "steps", chosen)

    @classmethod
    def of_rate(cls, rate: float) -> Schedule:
        """Returns the schedule that measures at least a share of the steps: 0.1 is every tenth, 0.3 every third.

        Raises:
            ConfigError: Unless ``rate`` is above 0 and at most 1.
        """
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= 1:
            raise ConfigError(f"sampling_rate is {rate!r}; expected a share of the steps above 0, at most 1")
        # The tolerance keeps 1 / (1 / n) at n.
        return cls(every=math.floor(1 / rate + 1e-9))

    def is_due(self, step: int) -> bool:
        """Whether a step is measured."""
        if self.steps is not None:
            return step in self.steps
        if step < self.start or (self.end is not None and step >= self.end):
            return False
        return step < self.dense_until or (step - self.start) % self.every == 0


def _check(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"schedule: {name} is {value!r}; expected a whole number of at least {least}")
