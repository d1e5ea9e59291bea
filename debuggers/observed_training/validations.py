"""Counts the validations of a training: those that the loop tells, and those that are seen between its steps."""

SAMPLES = 3
"""Calls after another with the same tensor from which their outputs are meant to differ."""


class Validations:
    """Counts at most one validation between two steps: the one that is told, else what the calls look like.

    Calls without gradients between two steps are taken for a validation where they are several, or come at less than
    half of the steps. Not where a backward pass of another model follows them, which may use the outputs, as in a GAN;
    nor where the model is trained on the same tensor next, as with pseudo-labels or the updates of a policy. Layers may
    be in training mode where one tensor comes again and again: samples are drawn for it (Gal and Ghahramani 2016).

    Attributes:
        count: How many there were.
        in_training_mode: Those of them in which a dropout or batch norm was in training mode.
        calls: Calls of the model since the last step that may belong to one.
    """

    def __init__(self) -> None:
        self.count = self.in_training_mode = self.calls = 0
        self._acted = self._samples = self._rests = self._is_told = self._is_told_as_acting = False
        self._steps = self._steps_with_calls = self._repeats = 0
        self._single: list[bool] = []

    @property
    def acted(self) -> bool:
        """Whether a layer was in training mode in the calls since the last step."""
        return self._acted

    @property
    def wants_mode(self) -> bool:
        """Whether the modes of the layers are worth a look at the next call."""
        return not self._acted and not self._rests and self.calls < 2

    def tell(self, *, acted: bool = False) -> None:
        """Takes that the loop validates after the last step, and whether a layer was in training mode."""
        self.count += not self._is_told
        self.in_training_mode += acted and not self._is_told_as_acting
        self._is_told = True
        self._is_told_as_acting |= acted

    def see_call(self, *, acted: bool, again: bool = False, rests: bool = False) -> None:
        """Takes a call of the model without gradients.

        Args:
            acted: Whether a layer was in training mode.
            again: Whether the call before it was given the same tensor.
            rests: Whether the model is in evaluation mode, after calls in training mode. Those were no validation: they
                may have computed the statistics of batch norms (Wu and Johnson 2021).
        """
        self.calls += 1
        self._repeats = self._repeats + 1 if again else 0
        self._samples |= self._repeats >= SAMPLES
        self._rests |= rests
        self._acted = (self._acted or acted) and not self._samples and not self._rests

    def forget_calls(self) -> None:
        """Says that the calls since the last step belong to the training."""
        self.calls, self._repeats = 0, 0
        self._acted = self._samples = self._rests = False

    def step_ends(self, *, step_had_other_passes: bool) -> bool | None:
        """Judges what was told and seen since the last step.

        Args:
            step_had_other_passes: Whether another model's backward pass was seen meanwhile.

        Returns:
            Whether a layer was in training mode in a validation that is counted by now; None if there is no new one.
        """
        self._steps += 1
        if not self.calls and not self._is_told and not self._single:
            return None
        counted: list[bool] = []
        is_seen = self.calls and not step_had_other_passes
        self._steps_with_calls += bool(is_seen)
        if self._is_told:
            if self._acted and is_seen:
                self.tell(acted=True)
            counted.append(self._is_told_as_acting)
        elif is_seen and self.calls > 1:
            counted.append(self._count(acted=self._acted))
        elif is_seen:
            # One call is judged later, once it is known whether each step has it, as pseudo-labels need.
            self._single.append(self._acted)
        self.forget_calls()
        self._is_told = self._is_told_as_acting = False
        if self._single and self._steps >= 10:
            if 2 * self._steps_with_calls < self._steps:
                counted += [self._count(acted=acted) for acted in self._single]
            self._single = []
        return any(counted) if counted else None

    def _count(self, *, acted: bool) -> bool:
        self.count += 1
        self.in_training_mode += acted
        return acted
