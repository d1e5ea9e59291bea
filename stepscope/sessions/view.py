"""What a session shows of itself, at any time: its debuggers, its last step, its report."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracker_adapters.wording import times

from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.progress import nothing_learnt
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.joined_optimizers import members_of
from debuggers.torch_import import torch
from stepscope.sessions.coverage import Coverage
from stepscope.sessions.diagnosis import SessionDiagnosis
from stepscope.sessions.first_nan import SessionFirstNaN
from stepscope.sessions.instruments import Instruments
from stepscope.sessions.report import DebugReport
from stepscope.sessions.stability import SessionStability
from stepscope.sessions.step_pacing import StepPacing
from stepscope.sessions.tool_report import ToolReport

if TYPE_CHECKING:
    from debuggers.activations.monitor import ActivationMonitor
    from debuggers.conditional_hooks.hooks import ConditionalHooks
    from debuggers.detectors import Finding
    from debuggers.gradients.debugger import GradientDebugger
    from debuggers.model_diagnostics.diagnostics import ModelDiagnostics
    from debuggers.profiling.profiler import PerformanceProfiler
    from debuggers.tensors.inspector import TensorInspector

_OF_A_HOOK = re.compile(r"hook ('[^']*'|\"[^\"]*\")")
"""How the places of failures begin that are a user's own: those of a conditional hook's callback or condition."""


class SessionView:
    """The part of a session that changes nothing.

    Attributes:
        disabled: Whether the environment switched the session off.
    """

    disabled: bool
    _model: torch.nn.Module | None
    _optimizer: torch.optim.Optimizer | None
    _stability: SessionStability
    _pacing: StepPacing
    _isolation: Isolation
    _first_nan: SessionFirstNaN
    _instruments: Instruments
    _diagnosis: SessionDiagnosis
    _started: bool
    _stopped: bool
    _paused: bool
    _pausing_thread: int
    _missed_steps: int
    _process: int
    _is_replaced = False

    @property
    def last_step(self) -> int:
        """The number of the last step; before the first, one less than it will have."""
        return self._pacing.last

    @property
    def should_stop(self) -> bool:
        """Whether an action on a finding asked to stop the training: the loop checks it."""
        return self._instruments.tools.control.should_stop

    def watches(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether this session watches exactly this model with this optimizer."""
        return self._model is model and self.steps_with(optimizer)

    def give_way(self) -> None:
        """Says that another session takes this one's place, which its report then tells."""
        self._is_replaced = True

    def steps_with(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether this session watches the steps of this optimizer."""
        mine = members_of(self._optimizer)
        if not mine or optimizer is None:
            return self._optimizer is optimizer
        return any(one is other for one in mine for other in members_of(optimizer))

    @property
    def tensor_inspector(self) -> TensorInspector:
        """Takes single tensors: ``session.tensor_inspector.inspect_tensor(tensor, "name")``."""
        return self._instruments.tensors

    @property
    def gradient_debugger(self) -> GradientDebugger:
        """History and analysis of the gradients; takes others by ``record_gradient_flow``."""
        return self._instruments.gradients

    @property
    def activation_monitor(self) -> ActivationMonitor | None:
        """Statistics of the layers' outputs; None unless configured."""
        return self._instruments.activations

    @property
    def hooks(self) -> ConditionalHooks:
        """Hooks that act when a condition holds: ``session.hooks.register_hook(HookBuilder("…")….build())``."""
        return self._instruments.tools.hooks

    @property
    def model_diagnostics(self) -> ModelDiagnostics:
        """The model's architecture, and its training by ``session.model_diagnostics.record_performance(…)``."""
        return self._instruments.tools.model_diagnostics

    @property
    def profiler(self) -> PerformanceProfiler:
        """Timers, and times and memory of layers: ``with session.profiler.timer("…"):``."""
        return self._instruments.tools.profiler

    @property
    def _is_inherited(self) -> bool:
        """Whether this is a forked child's copy of a session that its parent started."""
        return self._started and os.getpid() != self._process

    def report(self) -> DebugReport:
        """Returns the report so far."""
        findings = self._findings()
        causes: tuple[Cause, ...] = ()
        evidence: Evidence | None = None
        with self._isolation.guard("looking for causes"):
            evidence = self._diagnosis.evidence(findings)
            from debuggers.diagnosis.rules.diagnose import diagnose  # the first step does not wait for all rules

            causes = diagnose(evidence)
        tools: ToolReport | None = None
        with self._isolation.guard("reporting what the tools know"):
            tools = ToolReport.of(self._instruments.tools, evidence or Evidence())
        evidence = evidence or Evidence()
        gaps = (*evidence.validation_gaps, *nothing_learnt(evidence, causes))
        return DebugReport.of(
            self._instruments,
            findings,
            coverage=self._coverage(evidence.facts, gaps),
            overhead=self._pacing.overhead(),
            failures=self._failures,
            disabled=self.disabled,
            first_nans=self._first_nan.found,
            causes=causes,
            evidence=evidence,
            tools=tools,
        )

    def evidence(self) -> Evidence:
        """Returns the evidence of the diagnosis so far; waits for the device."""
        return self._diagnosis.evidence(self._findings())

    @property
    def _failures(self) -> dict[tuple[str, str], int]:
        return {**self._isolation.counts, **self._instruments.failures}

    def _coverage(self, facts: Facts, more: Iterable[str] = (), *, waits: bool = True) -> Coverage:
        """What was checked so far, with what is known of the training; may wait for the device."""
        of_hooks: Counter[str] = Counter()
        for (place, _), count in self._failures.items():
            if (found := _OF_A_HOOK.match(place)) is not None:
                of_hooks[found[0]] += count
        return Coverage.of(
            self._instruments,
            self._pacing.overhead(),
            last_step=self._pacing.last,
            failures=sum(self._failures.values()) - sum(of_hooks.values()),
            unused_passes=self._first_nan.unused_passes,
            missed_steps=self._missed_steps,
            replaced=self._is_replaced,
            ended_tools=self._stability.ended_tools,
            not_told=(*facts.not_told, *more, *(f"{hook} failed {times(of_hooks[hook])}" for hook in of_hooks)),
            waits=waits,
        )

    def _findings(self) -> list[Finding]:
        """All findings so far; waits for the device."""
        found = self._instruments.findings(self._isolation)
        with self._isolation.guard("waiting for the device"):
            known = {(finding.kind, finding.name) for finding in found}
            found += [one for one in self._diagnosis.findings() if (one.kind, one.name) not in known]
        return found

    def _repr_html_(self) -> str:
        return self.report().to_notebook()

    def __repr__(self) -> str:
        state = "disabled" if self.disabled else "not started" if not self._started else ""
        state = state or ("stopped" if self._stopped else "paused" if self._paused else "running")
        model = "" if self._model is None else f" of {type(self._model).__name__}"
        return f"<{type(self).__name__}{model}: {state}, last step {self._pacing.last}>"
