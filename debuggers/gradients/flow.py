"""Analysis of the gradients of the last steps: flow through the network, trends, findings, health and advice."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from tracker_adapters.values.plain import json_values
from tracker_adapters.wording import counted

from debuggers.detectors import Finding, gradient_detectors, merge_findings
from debuggers.detectors.observation import Floats
from debuggers.gradients.depth import DepthFlow, ModuleFlow, depth_flow, module_flows
from debuggers.gradients.growth import growth_over_depth, growth_over_steps
from debuggers.gradients.health import Health, health_of, health_score, recommend
from debuggers.gradients.history import GradientHistory
from debuggers.gradients.trend import Trend, log_norms, robust_slopes, trend_of

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFlow:
    """The gradient of one parameter over the history.

    Attributes:
        name: The parameter, or the layer that was recorded.
        steps: Held steps at which it was measured.
        last_norm: Euclidean norm over finite elements at the last of them; ``mean_norm`` is the mean over all.
        mean_magnitude: Mean over the steps of mean ``|g|``; NaN when no element ever was finite.
        zero_fraction: Share of zeros at the last step.
        non_finite_steps: Steps at which some element was NaN or infinite.
        decades_per_step: Slope of log10 norm by ``robust_slopes``; NaN with fewer than ten steps.
        trend: That slope over the whole history: rising or falling beyond half a decade.
    """

    name: str
    steps: int
    last_norm: float
    mean_norm: float
    mean_magnitude: float
    zero_fraction: float
    non_finite_steps: int
    decades_per_step: float
    trend: Trend


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlowAnalysis:
    """The analysis of a gradient history.

    Attributes:
        overall_health: Healthy without findings, critical below a score of 0.5, else warning; unknown without data.
        score: From 0 to 1 by ``health_score``; None without data.
        first_step: The first held step; None without data. ``last_step`` is the last one.
        steps: Held steps with gradients.
        expected_overflows: Those of them at which infinities were normal.
        layers: One for each recorded name, in order of appearance.
        modules: One for each dotted path, the whole model first.
        depth: The flow through depth; None with fewer than two layers.
        findings: What broke a rule, by its first step.
        recommendations: One sentence for each kind of finding, the gravest first.
    """

    overall_health: Health
    score: float | None
    first_step: int | None
    last_step: int | None
    steps: int
    expected_overflows: int
    layers: tuple[LayerFlow, ...]
    modules: tuple[ModuleFlow, ...]
    depth: DepthFlow | None
    findings: tuple[Finding, ...]
    recommendations: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON; NaN and infinities become None."""
        values: dict[str, Any] = json_values(asdict(self))
        return values | {"findings": [json_values(finding.to_dict()) for finding in self.findings]}

    def summary(self) -> str:
        """Returns the analysis in plain words, a few lines."""
        if self.score is None:
            return "Gradient health: unknown, no gradients were recorded."
        return "\n".join(
            [
                f"Gradient health: {self.overall_health} (score {self.score:.2f}), from "
                f"{counted(len(self.layers), 'gradients')} at {counted(self.steps, 'steps')}, {self.first_step} to "
                f"{self.last_step}.",
                *self.flow_lines(),
                *finding_lines(self.findings),
                *self.recommendations,
            ]
        )

    def flow_lines(self) -> list[str]:
        """Returns what is to be said of the flow through depth and of overflows, a sentence each."""
        lines = []
        if self.depth is not None:
            depth = self.depth
            lines.append(
                f"Gradient norm of the first layer, {depth.layers[0]}: {depth.first_to_last:.3g} times that of the "
                f"last, {depth.layers[-1]} (a factor of {depth.factor_per_layer:.3g} per layer)."
            )
        if self.expected_overflows:
            steps = counted(self.expected_overflows, "steps")
            lines.append(f"Overflows were expected at {steps}, from the loss scale.")
        return lines


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Returns a line for each problem, merged where one began for many tensors: at most ten, and how many more.

    What is no problem by itself, of level info, comes as one line of kinds.
    """
    merged = merge_findings([finding for finding in findings if finding.is_problem])
    lines = [f"{finding.kind}: {finding.message}" for finding in merged[:_SHOWN]]
    if len(merged) > _SHOWN:
        lines.append(f"and {counted(len(merged) - _SHOWN, 'more findings')}")
    notes = Counter(finding.kind for finding in findings if not finding.is_problem)
    if notes:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(notes.items()))
        lines.append(f"Notes, not problems by themselves: {kinds}.")
    return lines


def analyze(
    history: GradientHistory, *, findings: Sequence[Finding] | None = None, order: Sequence[str] = ()
) -> GradientFlowAnalysis:
    """Analyses what a history holds.

    Args:
        history: What was recorded.
        findings: What detectors found while training; those that ended before the held steps do not count. By
            default the detectors check the held steps again.
        order: The modules in the order of their calls; without, layers stand as they appeared.
    """
    steps, names = history.steps, history.names
    norms = history.window("norm")
    logs = log_norms(norms)
    slopes = robust_slopes(steps, logs)
    depth = depth_flow(names, norms, order)
    held = np.concatenate([steps, history.update_steps])
    first, last = (int(held.min()), int(held.max())) if len(held) else (None, None)
    found = _replay(history) if findings is None else _still_held(findings, first)
    found += growth_over_steps(names, steps, logs, slopes) + growth_over_depth(depth, steps)
    found.sort(key=lambda finding: finding.step)
    cells = max(int(history.present().sum()), int(history.present("update_ratio").sum()))
    score = health_score(found, cells) if cells else None
    return GradientFlowAnalysis(
        overall_health=Health.UNKNOWN if score is None else health_of(found, score),
        score=score,
        first_step=first,
        last_step=last,
        steps=len(steps),
        expected_overflows=int(history.overflow_expected.sum()),
        layers=_layers(history, norms, slopes),
        modules=module_flows(names, norms),
        depth=depth,
        findings=tuple(found),
        recommendations=recommend(found),
    )


def _still_held(findings: Sequence[Finding], first: int | None) -> list[Finding]:
    return [finding for finding in findings if first is not None and finding.last_step >= first]


def _replay(history: GradientHistory) -> list[Finding]:
    detectors = gradient_detectors()
    for observation in history.observations():
        detectors.see(observation)
    return detectors.findings()


def _layers(history: GradientHistory, norms: Floats, slopes: Floats) -> tuple[LayerFlow, ...]:
    present, zeros = history.present(), history.window("zero_fraction")
    magnitudes, broken = history.window("mean_magnitude"), history.window("non_finite") > 0
    span = int(np.ptp(history.steps)) if len(norms) else 0
    flows = []
    for row, name in enumerate(history.names):
        places = np.flatnonzero(present[:, row])
        if not len(places):
            continue
        finite = magnitudes[places, row]
        finite = finite[~np.isnan(finite)]
        flows.append(
            LayerFlow(
                name=name,
                steps=len(places),
                last_norm=float(norms[places[-1], row]),
                mean_norm=float(norms[places, row].mean()),
                mean_magnitude=float(finite.mean()) if len(finite) else math.nan,
                zero_fraction=float(zeros[places[-1], row]),
                non_finite_steps=int(broken[places, row].sum()),
                decades_per_step=float(slopes[row]),
                trend=trend_of(float(slopes[row]) * span),
            )
        )
    return tuple(flows)
