"""Whether a step of the optimizer changes weights: a few parameters are compared around it."""

from collections.abc import Sequence

from debuggers.gradients.weight_movement import WeightMovement
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.invariants import InvariantLog
from debuggers.torch_import import torch

_WATCHED = 4
"""Parameters whose elements are compared."""


class StepMovement:
    """Compares some parameters before and after a step, and enters the invariant ``step_changes_weights``."""

    def __init__(self, invariants: InvariantLog, arrivals: ArrivalQueue) -> None:
        self._invariants, self._arrivals = invariants, arrivals
        self._kept: tuple[int, WeightMovement, dict[str, torch.Tensor]] | None = None

    def forget(self) -> None:
        """Drops what was kept for a step that does not come."""
        self._kept = None

    def keep(self, step: int, optimizer: torch.optim.Optimizer | None, trained: Sequence[torch.Tensor]) -> None:
        """Keeps elements of some parameters that have a gradient."""
        if optimizer is None or not any(group["lr"] for group in optimizer.param_groups):
            return  # a warm-up may begin at zero
        chosen = [one for one in trained if one.grad is not None and one.grad.layout is torch.strided]
        stride = max(1, len(chosen) // _WATCHED)
        named = {str(place): one for place, one in enumerate(chosen[::stride][:_WATCHED])}
        movement = WeightMovement()
        movement.keep(named)
        self._kept = (step, movement, named) if named else None

    def compare(self, *, scaled: bool) -> None:
        """Compares them after the step; ``scaled`` says that a GradScaler may have left it out."""
        if self._kept is None:
            return
        (step, before, named), self._kept = self._kept, None
        moved = before.compare(named)

        def take() -> None:
            changes = [change for change, _ in moved.resolve().values()]
            still = not any(changes)
            # Complex weights and those without values cannot be compared; a fused optimizer leaves out what overflowed.
            if changes and not (still and scaled):
                self._invariants.check("step_changes_weights", step, broken=still)

        self._arrivals.push(moved, take)
