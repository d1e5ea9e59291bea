"""What actions ask of the loop and the session; both look at it after the step."""

import logging

_log = logging.getLogger(__name__)


class TrainingControl:
    """Holds what was asked for until somebody takes it.

    Attributes:
        should_stop: Whether an action asked to stop the training.
        raised: What was raised last because an action asked for it; None before.
    """

    def __init__(self) -> None:
        self.should_stop = False
        self.raised: Exception | None = None
        self._error: Exception | None = None
        self._dense_steps = 0

    def stop(self, why: str) -> None:
        """Asks to stop; told once."""
        if not self.should_stop:
            self.should_stop = True
            _log.warning("the training is asked to stop, by session.should_stop: %s", why)

    def raise_later(self, error: Exception) -> None:
        """Asks to raise an exception in the loop, when the step is taken; the first one counts."""
        self._error = self._error or error

    def measure(self, steps: int) -> None:
        """Asks to measure the coming steps."""
        self._dense_steps = max(self._dense_steps, steps)

    def take_dense_steps(self) -> int:
        """Returns how many of the coming steps are to be measured, once."""
        steps, self._dense_steps = self._dense_steps, 0
        return steps

    def raise_asked(self) -> None:
        """Raises what was asked for, once."""
        if self._error is not None:
            self.raised, self._error = self._error, None
            raise self.raised
