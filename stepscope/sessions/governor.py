"""Keeps the measured cost of watching under a limit, by measuring fewer steps."""

from dataclasses import dataclass

FREE_STEPS = 100
"""The first steps are always measured, because most faults of a new training show there."""
WARM_UP_STEPS = 20
"""Steps at the beginning that load code and allocate: they say nothing about the later ones, limited or not."""
FLOOR_S = 1e-3
"""What may be spent a step however short it is, in seconds."""
_SMOOTHING = 0.2
"""Weight of the newest measured step in the running means."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """The cost of watching in seconds, and the steps that were skipped to limit it.

    Attributes:
        steps: All steps.
        measured: Steps that were measured in full.
        skipped_by_schedule: Steps that the schedule left out.
        skipped_by_governor: Steps that were due and left out to stay under the limit.
        spent_s: Time in stepscope's code, on the training thread and on the thread that writes the run store.
        plain_s: The steps' time without it.
        limit: ``max_overhead``; None without a governor.
        warm_up_steps: Steps at the beginning that say nothing about the later ones: those that load code, and with a
            limit those that are not limited.
        warm_up_spent_s: What of ``spent_s`` they took.
        warm_up_plain_s: What of ``plain_s`` they took.
    """

    steps: int
    measured: int
    skipped_by_schedule: int
    skipped_by_governor: int
    spent_s: float
    plain_s: float
    limit: float | None
    warm_up_steps: int = WARM_UP_STEPS
    warm_up_spent_s: float = 0.0
    warm_up_plain_s: float = 0.0

    @property
    def share(self) -> float:
        """Spent by plain time, of the steps that ``per_step_s`` looks at; NaN before the first step."""
        spent_s, plain_s = self.per_step_s
        return spent_s / plain_s if plain_s > 0 else float("nan")

    @property
    def is_settled(self) -> bool:
        """Whether there are as many steps after the warm-up as in it, so that they say what a long training costs."""
        return self.steps >= 2 * self.warm_up_steps

    @property
    def per_step_s(self) -> tuple[float, float]:
        """Mean spent and plain time of a step, without the warm-up where it is over; NaN before the first."""
        if not self.steps:
            return float("nan"), float("nan")
        if not self.is_settled:
            return self.spent_s / self.steps, self.plain_s / self.steps
        steps = self.steps - self.warm_up_steps
        return (self.spent_s - self.warm_up_spent_s) / steps, (self.plain_s - self.warm_up_plain_s) / steps


class Governor:
    """Grants measured steps from a budget: each step earns it, and what watching costs is taken from it.

    A step earns ``limit`` times its own time, or 1 ms if that is more: measuring that costs up to 1 ms a step is never
    limited, however short the steps are. The first 100 steps are granted whatever they cost, and are not charged: most
    faults show there, and the first of them load code and allocate. The budget never holds, nor owes, more than two
    measured steps: a long pause, such as a validation, buys no burst, and a busy time is forgotten.
    """

    def __init__(self, limit: float | None) -> None:
        """``limit`` is the share of the step time that may be spent; None grants every step."""
        self._limit = limit
        self._warm_up_steps = WARM_UP_STEPS if limit is None else FREE_STEPS
        self._budget_s = 0.0
        self._cost_s = 0.0
        self._steps = self._measured = self._unscheduled = self._refused = 0
        self._spent_s = self._plain_s = 0.0
        self._warm_up_spent_s = self._warm_up_plain_s = 0.0

    def grants(self) -> bool:
        """Whether the next due step may be measured."""
        return self._limit is None or self._steps < FREE_STEPS or self._budget_s >= self._cost_s

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
        self._unscheduled += not due and not measured
        self._refused += due and not measured
        self._spent_s += spent_s
        self._plain_s += plain_s
        if self._steps <= self._warm_up_steps:
            self._warm_up_spent_s += spent_s
            self._warm_up_plain_s += plain_s
        self._measured += measured
        # The first of them loads code, and is no measure of the others.
        if measured and self._measured > 1:
            self._cost_s += (spent_s - self._cost_s) * (_SMOOTHING if self._cost_s else 1.0)
        if self._limit is not None and self._steps > FREE_STEPS:
            earned_s = max(self._limit * plain_s, FLOOR_S)
            most_s = max(2 * self._cost_s, FLOOR_S)
            self._budget_s = min(max(self._budget_s + earned_s - spent_s, -most_s), most_s)

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
            warm_up_steps=self._warm_up_steps,
            warm_up_spent_s=self._warm_up_spent_s,
            warm_up_plain_s=self._warm_up_plain_s,
        )
