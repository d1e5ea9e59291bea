"""Keeps the measured cost of watching under a share of the step time, by measuring fewer steps."""

from __future__ import annotations

from dataclasses import dataclass

_SMOOTHING = 0.2
"""Weight of the newest measured step in the running means."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What watching cost, in seconds, and what was left out for its sake.

    Attributes:
        steps: All steps.
        measured: Steps that were measured.
        skipped_by_schedule: Steps that the schedule left out.
        skipped_by_governor: Steps that were due and left out to stay under ``limit``.
        spent_s: Time in stepscope's code, on the training thread and on the thread that writes the run store.
        plain_s: The steps' time without it.
        limit: ``max_overhead``; None without a governor.
    """

    steps: int
    measured: int
    skipped_by_schedule: int
    skipped_by_governor: int
    spent_s: float
    plain_s: float
    limit: float | None

    @property
    def share(self) -> float:
        """``spent_s / plain_s``; NaN before the first step."""
        return self.spent_s / self.plain_s if self.plain_s > 0 else float("nan")


class Governor:
    """Grants measured steps from a budget: each step earns ``limit`` times its own time, and measuring spends it.

    The first due step is granted on credit, so that short runs show something, and is not charged: it loads code
    and allocates, and says nothing about the later ones. The budget never holds more than two measured steps: a long
    pause, such as a validation, buys no burst.
    """

    def __init__(self, limit: float | None) -> None:
        """``limit`` is the share of the step time that may be spent; None grants every step."""
        self._limit = limit
        self._budget_s = 0.0
        self._cost_s = 0.0
        self._steps = self._measured = self._unscheduled = self._refused = 0
        self._spent_s = self._plain_s = 0.0
        self._first = True

    def grants(self) -> bool:
        """Whether the next due step may be measured."""
        return self._limit is None or self._budget_s >= self._cost_s

    def account(self, step_s: float, spent_s: float, *, due: bool, measured: bool) -> None:
        """Enters a finished step.

        Args:
            step_s: Its whole duration.
            spent_s: What of it, and beside it, was stepscope's.
            due: Whether the schedule wanted it measured.
            measured: Whether it was.
        """
        plain_s = max(0.0, step_s - spent_s)
        self._steps += 1
        self._measured += measured
        self._unscheduled += not due
        self._refused += due and not measured
        self._spent_s += spent_s
        self._plain_s += plain_s
        if measured and self._first:
            self._first = False
            return
        if measured:
            self._cost_s += (spent_s - self._cost_s) * (_SMOOTHING if self._cost_s else 1.0)
        if self._limit is not None:
            self._budget_s = min(self._budget_s + self._limit * plain_s - spent_s, 2 * self._cost_s)

    def overhead(self) -> Overhead:
        """Returns the sums so far."""
        return Overhead(
            steps=self._steps,
            measured=self._measured,
            skipped_by_schedule=self._unscheduled,
            skipped_by_governor=self._refused,
            spent_s=self._spent_s,
            plain_s=self._plain_s,
            limit=self._limit,
        )
