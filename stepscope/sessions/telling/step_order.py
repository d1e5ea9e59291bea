"""Whether a loop tells of a step before the optimizer takes it or after."""

from stepscope.sessions.diagnosis import SessionDiagnosis


class StepOrder:
    """Follows backward passes, steps of the optimizer and calls of ``session.step()``, to tell what a call belongs to.

    A call belongs to the step that the optimizer has just taken if no backward pass has come since. Neither does one
    count that adds to gradients which a step counted by the optimizer has used already: it is another model's, as that
    of a GAN's generator, which fills its critic's gradients, too.

    Attributes:
        forward_passes: Training's forward passes of the model so far; used where backward passes are not seen.
        tells_after: Whether the loop has told of a step after it.
        is_told: Whether the loop has told of the coming step, or of one of its passes.
        was_counted: Whether the optimizer itself counted its last step.
    """

    def __init__(self, diagnosis: SessionDiagnosis, *, has_several: bool) -> None:
        """Takes who sees backward passes, and whether several optimizers take their steps together."""
        self._diagnosis, self._has_several = diagnosis, has_several
        self.forward_passes = 0
        self.tells_after = self.is_told = self.was_counted = False
        self._ended: int | None = None
        """The passes up to the end of the optimizer's last step; None before the first."""
        self._before = self._called = self._drops = 0
        self._is_own = self._missed = self._skipped = False

    @property
    def follows(self) -> bool:
        """Whether a call now belongs to the step that the optimizer has taken."""
        return self._is_own and not self._has_new_pass

    def call(self) -> None:
        """Takes a call that takes a step, before the optimizer does."""
        is_after = self._passes == self._ended and (self._missed or self._skipped)
        self.tells_after |= is_after
        self.is_told = not (is_after and self._skipped)
        self._called, self._drops = self._passes, self._diagnosis.drops

    def begin(self) -> bool:
        """Takes that the optimizer begins its step; returns whether it counts it.

        It does unless the loop has told of it. A call that was followed by a pass whose gradients had been zeroed was
        about an earlier one, which a GradScaler skipped; and in a loop that tells of passes after the optimizer's
        steps, the call for the last one is still to come.
        """
        missed = self._passes > self._called and (self.tells_after or self._diagnosis.drops > self._drops)
        self.was_counted, self._skipped = not self.is_told or missed, False
        return self.was_counted

    def skip(self) -> None:
        """Takes that the optimizer's step was called and skipped."""
        self.was_counted, self._skipped = False, True

    def end(self) -> None:
        """Takes that the optimizer's step has ended."""
        passes, before = self._passes, self._before
        told = self.is_told and before < self._called
        self._is_own = self.was_counted or (told and self._called == passes)
        self._missed = told and self._called < passes and not self.was_counted
        self._ended = self._before = passes
        self.is_told = False

    @property
    def _passes(self) -> int:
        return self._diagnosis.backward_passes if self._diagnosis.sees_passes else self.forward_passes

    @property
    def _has_new_pass(self) -> bool:
        if self._passes == self._ended:
            return False
        return self._diagnosis.were_zeroed or not self.was_counted or self._has_several
