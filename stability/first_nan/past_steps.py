"""What was seen in the steps before a fault: it decides what may be said of a parameter that holds NaN."""

from __future__ import annotations

from dataclasses import replace

from debuggers.first_nan.origin import NonFiniteOrigin

_REPAIR = "restore a checkpoint"


class PastSteps:
    """Knows whether loss and gradients of the last step were finite, if it was looked at."""

    def __init__(self) -> None:
        self._last: tuple[int, bool] | None = None

    @property
    def was_faulty(self) -> bool:
        """Whether they were not."""
        return self._last is not None and not self._last[1]

    def saw(self, step: int, *, finite: bool | None) -> None:
        """Says what a step was like; ``finite`` is None where that is not known."""
        self._last = None if finite is None else (step, finite)

    def explain(self, origin: NonFiniteOrigin) -> NonFiniteOrigin:
        """Returns an answer with what is known of how a parameter came to hold what is not finite."""
        if origin.origin != "parameter":
            return origin
        return replace(origin, suggestion=f"{origin.held_by} was not finite before this step: {self._cause()}")

    def _cause(self) -> str:
        if self._last is None:
            return (
                "the step before it was not looked at, if there was one: check the initialisation and what was loaded, "
                f"or {_REPAIR}"
            )
        step, finite = self._last
        if finite:
            return (
                f"the gradients of step {step} were finite, so the update after it broke it (learning rate, the "
                f"optimizer's eps and state), or other code wrote to it; {_REPAIR}"
            )
        return f"loss or gradients of step {step} were not finite, and an update with them breaks it; {_REPAIR}"
