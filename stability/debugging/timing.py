"""Where the time of a step goes: forward, backward, the manager, the optimizer, the rest."""

import time
from typing import Any, Literal, TypeAlias

from debuggers.instrumentation.hooks import Hooks
from debuggers.torch_import import torch
from stability.debugging.tool import StepSeen
from stability.results.debugging import StepTimes
from stability.results.step import Anomaly, DebugInfo

Phase: TypeAlias = Literal["forward", "backward", "stability", "optimizer", "rest"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "stability", "optimizer", "rest")


class StepTiming:
    """Marks where one phase of a step ends and the next begins, by hooks on the model and the optimizer.

    Times are those of the host: CUDA works on while the host goes ahead, so a phase shows what its kernels take only
    with ``cuda_synchronize``, and then all of it in the phase that waits. A forward without gradients, such as in
    evaluation, is followed by ``rest``. The first step is not measured: the model is known after it.
    """

    def __init__(self) -> None:
        self._hooks = Hooks()
        self._watched: tuple[torch.nn.Module, torch.optim.Optimizer] | None = None
        self._phase: Phase = "rest"
        self._since = 0.0
        self._complete = False
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._sums = dict.fromkeys(PHASES, 0.0)
        self._steps = 0

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """The manager's step begins."""
        if self._watched is None or self._watched[0] is not model or self._watched[1] is not optimizer:
            self._hooks.remove()
            self._watched = model, optimizer
            self._complete = False
            self._hooks.add_around_forward(model, self._forward_begins, self._forward_ends)
            self._hooks.add_optimizer_pre_step(optimizer, lambda _: self._enter("optimizer"))
            self._hooks.add_optimizer_post_step(optimizer, lambda _: self._enter("rest"))
        self._enter("stability")

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``step_times``, which end here."""
        self._enter("rest")
        if self._complete:
            info["step_times"] = _times(self._spent, 1)
            for phase in PHASES:
                self._sums[phase] += self._spent[phase]
            self._steps += 1
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._complete = True
        return []

    def mean(self) -> StepTimes | None:
        """Returns the means over the measured steps, or None before the first."""
        return _times(self._sums, self._steps) if self._steps else None

    def close(self) -> None:
        """Removes the hooks."""
        self._hooks.remove()
        self._watched = None

    def _forward_begins(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._enter("forward")

    def _forward_ends(self, module: torch.nn.Module) -> None:
        self._enter("backward" if torch.is_grad_enabled() else "rest")

    def _enter(self, phase: Phase) -> None:
        now = time.perf_counter()
        self._spent[self._phase] += now - self._since
        self._phase, self._since = phase, now


def _times(sums: dict[Phase, float], steps: int) -> StepTimes:
    return StepTimes(
        forward=sums["forward"] / steps,
        backward=sums["backward"] / steps,
        stability=sums["stability"] / steps,
        optimizer=sums["optimizer"] / steps,
        rest=sums["rest"] / steps,
        total=sum(sums.values()) / steps,
    )
