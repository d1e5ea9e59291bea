"""What a debug session found, as an object, in plain words, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tracker_adapters.terminal_text import in_one_line, printable
from tracker_adapters.values.plain import json_values
from tracker_adapters.wording import counted, times

from debuggers.detectors import Finding
from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.gradients.flow import GradientFlowAnalysis, finding_lines
from debuggers.gradients.health import recommend
from debuggers.tensors.lifetimes import TensorLeak
from stepscope.diagnosing.wording import cause_lines
from stepscope.report_pages.content import ReportContent
from stepscope.sessions.coverage import Coverage
from stepscope.sessions.governor import FLOOR_S, FREE_STEPS, Overhead
from stepscope.sessions.instruments import Instruments
from stepscope.sessions.tool_report import ToolReport
from stepscope.sessions.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from debuggers.first_nan.output import FirstNaN

_NOTEBOOK_HEIGHT = 600
"""Pixels of a report in a notebook."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DebugReport:
    """The report of a session.

    Attributes:
        overhead: Numbers of steps, measured and skipped ones by reason, and the measured cost.
        gradients: Flow, trends, findings, health and recommendations; None when none were recorded.
        verdict: The health in one word, its score, and the gaps in coverage.
        coverage: The steps, parameters and layers that were checked.
        causes: The causes of what is wrong, most likely first; empty if nothing was found.
        evidence: The evidence for them, for the pictures of ``to_html``.
        findings: All findings of the session, in order of their first step.
        recommendations: What to do about them, one sentence per kind, the most severe first.
        tensors: How many inspected tensors are tracked, skipped, dropped.
        leaks: Names of inspected tensors whose memory accumulates.
        failures: Number of internal failures, by place and type of exception.
        first_nans: The origins of NaN in steps that were replayed.
        disabled: Whether the environment disabled the session.
        tools: The model's architecture, where the time goes, and what was recorded by ``session.model_diagnostics``.
    """

    verdict: Verdict
    coverage: Coverage
    overhead: Overhead
    gradients: GradientFlowAnalysis | None
    findings: tuple[Finding, ...]
    recommendations: tuple[str, ...]
    tensors: Mapping[str, int]
    leaks: tuple[TensorLeak, ...]
    failures: Mapping[str, int]
    disabled: bool
    first_nans: tuple[FirstNaN, ...] = ()
    causes: tuple[Cause, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    tools: ToolReport = field(default_factory=ToolReport)

    @classmethod
    def of(
        cls,
        instruments: Instruments,
        findings: list[Finding],
        *,
        coverage: Coverage,
        overhead: Overhead,
        failures: Mapping[tuple[str, str], int],
        disabled: bool,
        first_nans: tuple[FirstNaN, ...],
        causes: tuple[Cause, ...],
        evidence: Evidence,
        tools: ToolReport | None,
    ) -> Self:
        """Returns the report of instruments and their findings, to which those are added that the history shows."""
        analysis = instruments.gradients.analyze_gradient_flow()
        # Growth over steps and depth is found only when the history is checked.
        findings += [finding for finding in analysis.findings if finding not in findings]
        findings.sort(key=lambda finding: finding.step)
        inspector = instruments.tensors
        return cls(
            verdict=verdict_of(findings, coverage, causes),
            causes=causes,
            evidence=evidence,
            tools=tools or ToolReport(),
            coverage=coverage,
            overhead=overhead,
            gradients=analysis if analysis.steps or analysis.findings else None,
            findings=tuple(findings),
            # What no optimizer holds needs no other advice.
            recommendations=recommend([one for one in findings if one.name not in coverage.outside_optimizer]),
            tensors={"inspected": inspector.inspected, "left_out": inspector.skipped, "dropped": inspector.dropped},
            leaks=tuple(inspector.leaks()),
            failures={f"{place}: {kind}": count for (place, kind), count in failures.items()},
            disabled=disabled,
            first_nans=first_nans,
        )

    def summary(self) -> str:
        """Returns the report as a few lines of text; control characters, as in names of modules, are made visible."""
        if self.disabled:
            return "The session was disabled by STEPSCOPE_DISABLED: nothing was measured."
        lines = [f"Verdict: {self.verdict}", *cause_lines(self.causes), self.coverage.summary()]
        lines += finding_lines(self.findings)
        lines += self.recommendations
        lines = [in_one_line(line) for line in lines]
        lines += [] if self.gradients is None else self.gradients.flow_lines()
        if self.tensors["inspected"]:
            lines.append(
                f"Tensors: {self.tensors['inspected']} inspected, {self.tensors['left_out']} of them left out by "
                f"sampling, {counted(self.tensors['dropped'], 'results')} dropped in favour of newer ones."
            )
        lines += [leak.message for leak in self.leaks]
        lines += [str(answer) for answer in self.first_nans]
        lines += self.tools.lines()
        lines += [f"Internal error: {place}, {times(count)}." for place, count in self.failures.items()]
        lines += [_steps(self.overhead), overhead_line(self.overhead)]
        return printable("\n".join(lines))

    def to_markdown(self, title: str = "stepscope") -> str:
        """Returns the report as Markdown: first the verdict, the three most likely causes and the health by area."""
        from stepscope.report_pages.markdown import to_markdown

        return to_markdown(self._content(title))

    def to_html(self, title: str = "stepscope") -> str:
        """Returns the report as one HTML file, with pictures inside and without scripts."""
        from stepscope.report_pages.html import to_html  # not before the first step

        return to_html(self._content(title))

    def _content(self, title: str) -> ReportContent:
        return ReportContent(title=title, text=self.summary(), causes=self.causes, evidence=self.evidence)

    def __repr__(self) -> str:
        return f"<DebugReport: {self.summary().splitlines()[0]}>"

    def to_notebook(self) -> str:
        """Returns the report as HTML for a notebook's cell: ``to_html`` in a frame that runs nothing."""
        from debuggers.pictures.html_page import framed

        return framed(self.to_html(), _NOTEBOOK_HEIGHT)

    def _repr_html_(self) -> str:
        return self.to_notebook()

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain values for JSON; NaN and infinities become None."""
        return {
            "disabled": self.disabled,
            "health": str(self.verdict.health),
            "score": self.verdict.score,
            "over_since": self.verdict.over_since,
            "coverage": self.coverage.to_dict(),
            "overhead": json_values(asdict(self.overhead) | {"share": self.overhead.share}),
            "gradients": None if self.gradients is None else self.gradients.to_dict(),
            "causes": [json_values(cause.to_dict()) for cause in self.causes],
            "findings": [json_values(finding.to_dict()) for finding in self.findings],
            "recommendations": list(self.recommendations),
            "tensors": dict(self.tensors),
            "leaks": [json_values(asdict(leak)) for leak in self.leaks],
            "failures": dict(self.failures),
            "tools": json_values(self.tools.to_dict()),
            "first_nans": [json_values(answer.as_dict()) for answer in self.first_nans],
        }

    def to_json(self) -> str:
        """Returns ``to_dict`` as JSON, indented."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def overhead_line(overhead: Overhead) -> str:
    """Returns the measured overhead in one sentence."""
    if not overhead.steps:
        return "Overhead: no step was taken."
    spent_s, plain_s = overhead.per_step_s
    if not plain_s > 0:
        return f"Overhead: {spent_s * 1e3:.2f} ms a step; the step time without it is not known."
    cost = f"Overhead: {spent_s * 1e3:.2f} ms a step of {plain_s * 1e3:.2f} ms"
    if not overhead.is_settled:  # a share would say what the first steps cost
        free = "" if overhead.limit is None else f"; the first {FREE_STEPS} are not limited"
        return f"{cost}, start-up included. The share is given from step {2 * overhead.warm_up_steps} on{free}."
    if overhead.limit is not None and spent_s <= FLOOR_S:
        why = f"{overhead.skipped_by_governor:,} steps were skipped for that" if overhead.skipped_by_governor else ""
        return f"{cost} (under {FLOOR_S * 1e3:.0f} ms a step, {why or 'so not limited'})."
    limit = "" if overhead.limit is None else f" (limit {overhead.limit:.1%}, or {FLOOR_S * 1e3:.0f} ms)"
    return f"{cost}, {overhead.share:.1%}{limit}."


def _steps(overhead: Overhead) -> str:
    text = f"Steps: {overhead.steps:,}, {overhead.measured:,} of them measured"
    if overhead.skipped_by_schedule:
        text += f", {overhead.skipped_by_schedule:,} skipped by the schedule"
    if overhead.skipped_by_governor:
        text += f", {overhead.skipped_by_governor:,} skipped to limit the overhead"
    return text + "."
