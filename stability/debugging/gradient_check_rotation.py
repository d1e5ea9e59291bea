"""Checks the gradients of one leaf module after the other while a session runs."""

from collections import Counter
from typing import Any

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.module_selection import NamedModule, select_modules
from debuggers.torch_import import torch
from stability.debugging.check_pace import CheckPace
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.gradient_check import CheckLimits, describe_failure
from stability.debugging.module_check import check_module, is_sparse, reason_to_skip, skipped, small_arguments
from stability.debugging.tool import StepSeen
from stability.results.debugging import GradientCheck, GradientCheckFailure, GradientCheckSummary, GradientMode
from stability.results.step import Anomaly, DebugInfo


class GradientCheckRotation:
    """Keeps the input of one module at a time by a hook that is there for one forward pass, and checks it in ``step``.

    The first check is at the second step, the next one ``grad_check_every`` steps later, with the next module in the
    model's order; after the last comes the first again, with other elements. A module that was not called until its
    turn is over is skipped. A failure is told once for each module. With ``check_max_share`` checks come as often as
    that share of the time allows instead.
    """

    def __init__(self, config: PyTorchDebuggingConfig) -> None:
        modes: tuple[GradientMode, ...] = ("reverse", "forward") if config.grad_check_forward_mode else ("reverse",)
        self._limits = CheckLimits(config.grad_check_budget_s, modes, sampled=True)
        self._pace = CheckPace(config.grad_check_every, config.check_max_share)
        self._wanted = {False: config.grad_check_numerical, True: config.grad_check_sparse_numerical}
        self._hooks = Hooks()
        self._modules: list[NamedModule] = []
        self._turn = 0
        self._current: NamedModule | None = None
        self._captured: tuple[tuple[Any, ...], dict[str, Any]] | str | None = None
        self._passed: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._failures: list[GradientCheckFailure] = []
        self._seconds = 0.0

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached before the end of a step."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``gradient_check`` at a step with a check, and returns its failure if it is a module's first."""
        anomalies: list[Anomaly] = []
        due = self._pace.step()
        if self._current is not None and (self._captured is not None or due):
            name = self._current.name
            with self._pace.spending():
                check = self._check(self._current)
            self._hooks.remove()
            self._current, self._captured = None, None
            info["gradient_check"] = check
            if check["passed"] is False and self._failed[name] == 0:
                anomalies = [Anomaly(kind="gradient_check_failed", message=describe_failure(check), step=seen.number)]
            self.count(check)
        if due:
            self._watch_next(seen.model)
        return anomalies

    def count(self, check: GradientCheck) -> None:
        """Takes a check into the summary."""
        self._seconds += check["seconds"]
        if check["passed"] is None:
            self._skipped[check["skipped"]] += 1
        else:
            (self._passed if check["passed"] else self._failed)[check["module"]] += 1
        if self._failed[check["module"]] <= 1:
            self._failures += check["failures"]

    def summary(self) -> GradientCheckSummary:
        """Returns what was checked; ``failures`` are those of each module's first failed check."""
        return GradientCheckSummary(
            passed=dict(self._passed),
            failed={name: count for name, count in self._failed.items() if count},
            skipped=dict(self._skipped),
            failures=list(self._failures),
            seconds=self._seconds,
        )

    def close(self) -> None:
        """Removes the hook, and lets the model go."""
        self._hooks.remove()
        self._modules = []
        self._current, self._captured = None, None

    def _watch_next(self, model: torch.nn.Module) -> None:
        # The model of now: two may take turns, and a layer may have been exchanged since the last check.
        self._modules = [entry for entry in select_modules(model) if not entry.opaque]
        for _ in self._modules:
            entry = self._modules[self._turn % len(self._modules)]
            self._turn += 1
            reason = reason_to_skip(entry.module)
            if reason is None:
                self._current = entry
                self._hooks.add_around_forward(entry.module, self._capture, _nothing)
                return
            self.count(skipped(entry.name, reason))

    def _capture(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._captured is None:
            try:
                self._captured = small_arguments(args, kwargs) or "inputs too large"
            except Exception as error:  # in the user's forward nothing may be raised, whatever the inputs are
                self._captured = f"inputs cannot be copied: {type(error).__name__}"

    def _check(self, entry: NamedModule) -> GradientCheck:
        if self._captured is None:
            return skipped(entry.name, "not called")
        if isinstance(self._captured, str):
            return skipped(entry.name, self._captured)
        args, kwargs = self._captured
        if not self._wanted[sparse := is_sparse(entry.module, args, kwargs)]:
            return skipped(entry.name, "sparse" if sparse else "dense")
        seed = self._turn // max(len(self._modules), 1)
        return check_module(entry.name, entry.module, args, kwargs, self._limits, seed=seed)


def _nothing(module: torch.nn.Module) -> None:
    pass
