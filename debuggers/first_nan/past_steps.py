"""The history before a fault: whether a step is replayed, and how a parameter came to hold NaN."""

from dataclasses import replace

from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.origin import NonFiniteOrigin

_REPAIR = "restore a checkpoint"
MOST_TRIES = 3
"""Replays without a result, one after another, before the same pause as after a result."""


class PastSteps:
    """Whether loss and gradients of the last step were finite, if it was checked."""

    def __init__(self) -> None:
        self._last: tuple[int, bool] | None = None

    @property
    def was_faulty(self) -> bool:
        """Whether they were non-finite."""
        return self._last is not None and not self._last[1]

    def saw(self, step: int, *, finite: bool | None) -> None:
        """Notes whether a step was finite; ``finite`` is None if unknown."""
        self._last = None if finite is None else (step, finite)

    def explain(self, origin: NonFiniteOrigin) -> NonFiniteOrigin:
        """Returns a parameter's origin with the likely cause of its non-finite values; others unchanged."""
        if origin.origin != "parameter":
            return origin
        return replace(origin, suggestion=f"{origin.held_by} was not finite before this step: {self._cause()}")

    def _cause(self) -> str:
        if self._last is None:
            return (
                "the step before it, if any, was not checked: check the initialisation and loaded weights, "
                f"or {_REPAIR}"
            )
        step, finite = self._last
        if finite:
            return (
                f"the gradients of step {step} were finite, so the update after it broke it (learning rate, the "
                f"optimizer's eps and state), or other code wrote to it; {_REPAIR}"
            )
        return f"loss or gradients of step {step} were not finite, and an update with them breaks it; {_REPAIR}"


class ReplaySchedule:
    """Selects the first step of each fault for a replay, and after a result none for ``steps_between`` steps.

    A replay without a result is retried at the next faulty step, whether that begins a fault or continues it. Raises
    DebuggerConfigError if ``steps_between`` is no positive integer.
    """

    def __init__(self, steps_between: int) -> None:
        check_value("steps_between", steps_between, at_least(1), DebuggerConfigError)
        self._steps_between = steps_between
        self._was_faulty = False
        self._tries = 0
        self._last: int | None = None

    def is_due(self, step: int, *, faulty: bool) -> bool:
        """Adds a step, and returns whether to replay it; call ``done`` after the replay."""
        begins = faulty and (not self._was_faulty or self._tries > 0)
        self._was_faulty = faulty
        return begins and (self._last is None or not 0 <= step - self._last < self._steps_between)

    def done(self, step: int, *, answered: bool) -> None:
        """Notes whether the replay of a step had a result."""
        self._tries = 0 if answered else self._tries + 1
        if answered or self._tries == MOST_TRIES:
            self._tries = 0
            self._last = step
