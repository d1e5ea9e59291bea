"""Whether a step of the optimizer ever uses the gradients that backward passes fill, and whether its weights stay."""

from collections.abc import Sequence

from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.step_passes import StepPasses
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

_DROPPED = 3
"""Times that gradients were zeroed unused, from which it is no accident."""
_PASSES = 10
"""Backward passes from which a step is missed, where gradients were zeroed."""
_MANY_PASSES = 100
"""The same where they were not: they may be accumulated for long."""
_WATCHED = 8


class UnusedGradients:
    """Watches the first step of an optimizer that does not come, as where ``optimizer.step`` is named and not called.

    What else trains the weights, such as an optimizer inside of the backward pass, changes them from one pass to the
    next. What changes them before the first one, as their initialization, or behind the last one, as a checkpoint that
    is restored at the end, has not trained them.

    Attributes:
        has_replaced: Whether weights were changed after the last step and never between two, as by a loop that ends
            with its best checkpoint. One that clamps weights after each step does not.
    """

    def __init__(self, trained: Sequence[torch.Tensor]) -> None:
        """Takes the parameters that are to be trained."""
        self._watched = list(trained[:: max(1, len(trained) // _WATCHED)])
        self._versions = self._latest = self._now()
        self._has_begun = self._has_stepped = self._is_habit = False

    def optimizer_steps(self) -> None:
        """Says that the optimizer has taken a step."""
        self._has_stepped = True
        self._latest = self._now()

    def pass_begins(self) -> None:
        """Says that a backward pass begins."""
        if not self._has_begun:
            self._has_begun, self._versions = True, self._now()
        if not self._has_stepped:
            self._latest = self._now()
        elif not self._is_habit:
            self._is_habit = self._now() != self._latest

    @property
    def has_replaced(self) -> bool:
        """See the class."""
        return self._has_stepped and not self._is_habit and self._now() != self._latest

    def judge(self, passes: StepPasses, invariants: InvariantLog) -> None:
        """Enters the invariant ``gradients_are_used``, if that can be told by now."""
        seen, dropped = passes.without_step
        enough = seen >= (_PASSES if dropped >= _DROPPED else _MANY_PASSES)
        if self._watched and (self._has_stepped or enough):
            unused = not self._has_stepped and self._latest == self._versions
            invariants.state("gradients_are_used", 0, broken=unused)

    def _now(self) -> list[int]:
        try:
            return [version_of(one) for one in self._watched]
        except RuntimeError:  # made in inference mode
            return []
