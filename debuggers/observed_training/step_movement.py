"""Whether a step of the optimizer changes weights: a few parameters are compared around it."""

from collections.abc import Sequence

from debuggers.gradients.element_samples import sample_elements
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.invariants import InvariantLog
from debuggers.signals.deferred_values import DeferredValues
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import resting_parameters

_WATCHED = 4
"""Parameters whose elements are compared."""


class StepMovement:
    """Compares some parameters before and after a step, and enters the invariant ``step_changes_weights``."""

    def __init__(self, invariants: InvariantLog, arrivals: ArrivalQueue) -> None:
        self._invariants, self._arrivals = invariants, arrivals
        self._step = 0
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forget(self) -> None:
        """Drops what was kept for a step that does not come."""
        self._kept = []

    def keep(self, step: int, optimizer: torch.optim.Optimizer | None, trained: Sequence[torch.Tensor]) -> None:
        """Keeps elements of some parameters that have a gradient."""
        if optimizer is None or not any(group["lr"] for group in optimizer.param_groups):
            return  # a warm-up may begin at zero
        if isinstance(optimizer, torch.optim.LBFGS):
            return  # once it has converged, its steps change nothing
        resting = resting_parameters(optimizer)
        chosen = [
            one
            for one in trained
            if one.grad is not None and one.grad.layout is torch.strided and id(one) not in resting
        ]
        stride = max(1, len(chosen) // _WATCHED)
        with quiet_computation("cpu"):
            elements = [(one, sample_elements(one)) for one in chosen[::stride][:_WATCHED]]
        self._step, self._kept = step, [(one, before) for one, before in elements if before is not None]

    def compare(self, *, scaled: bool) -> None:
        """Compares them after the step; ``scaled`` says that a GradScaler may have left it out."""
        if not self._kept:
            return
        step, kept, self._kept = self._step, self._kept, []
        befores, afters = [], []
        with quiet_computation("cpu"):
            for parameter, before in kept:
                after = sample_elements(parameter)
                if after is not None and before.shape == after.shape and before.device == after.device:
                    befores.append(before)
                    afters.append(after)
            named = {f"before/{place}": one for place, one in enumerate(befores)}
            moved = DeferredValues(named | {f"after/{place}": one for place, one in enumerate(afters)})

        def take() -> None:
            values = moved.resolve()
            pairs = [(values[f"before/{place}"], values[f"after/{place}"]) for place in range(len(befores))]
            still = not any((before != after).any() for before, after in pairs)
            # Complex weights and those without values cannot be compared; a fused optimizer leaves out what overflowed.
            if pairs and not (still and scaled):
                self._invariants.check("step_changes_weights", step, broken=still)

        self._arrivals.push(moved, take)
