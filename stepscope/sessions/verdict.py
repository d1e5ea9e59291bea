"""The verdict of a session and its score, from its findings and its coverage."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from debuggers.detectors import Finding
from debuggers.diagnosis.cause import Cause
from debuggers.gradients.health import Health, health_of, health_score
from stepscope.sessions.coverage import Coverage

BEST_PARTIAL_SCORE = 0.99
"""The best score if there are gaps in coverage, or findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a training, as far as it was observed.

    Attributes:
        health: Healthy only if the coverage has no gaps, no cause was found, and no finding above level info.
        score: From 0 to 1 by ``health_score`` over all findings of the session, at most 0.99 if there are findings or
            gaps, and at most 1 minus half the confidence in the likeliest cause; None if nothing was checked.
        gaps: What was not checked.
        found: Number of findings of each kind, without those of level info.
        over_since: The last step with such a finding, if all are over; otherwise None.
        cause: The likeliest cause, in a few words; empty if there is none.
    """

    health: Health
    score: float | None
    gaps: tuple[str, ...]
    found: Mapping[str, int]
    over_since: int | None = None
    cause: str = ""

    def __str__(self) -> str:
        """The verdict in one sentence."""
        text = str(self.health)
        if self.over_since is not None:
            text += f", over since step {self.over_since}"
        if self.score is not None:
            # Never rounded up to a full score.
            text += f" (score {min(self.score, 0.99) if self.score < 1 else 1:.2f})"
        if self.cause:
            text += f", likely because {self.cause}"
        if self.gaps and not self.found and not self.cause:
            return f"{text}: {'; '.join(self.gaps)}."
        if self.found:
            text += ": " + ", ".join(f"{kind} ({count})" for kind, count in self.found.items())
        text += "."
        return f"{text} Gaps in coverage: {'; '.join(self.gaps)}." if self.gaps else text


def verdict_of(findings: Sequence[Finding], coverage: Coverage, causes: Sequence[Cause] = ()) -> Verdict:
    """Judges a session.

    Args:
        findings: All of them; those of level info do not count.
        coverage: What was checked.
        causes: What is wrong, the likeliest first.
    """
    findings = [finding for finding in findings if finding.is_problem]
    gaps = coverage.gaps
    found = Counter(finding.kind for finding in findings)
    if not (coverage.probed or coverage.recorded_layers or findings or causes):
        return Verdict(health=Health.UNKNOWN, score=None, gaps=gaps, found=found)
    cells = coverage.measured * max(1, coverage.parameters) + coverage.recorded_steps * coverage.recorded_layers
    steps = max(coverage.steps, coverage.recorded_steps)
    score = health_score(findings, cells, last_step=coverage.last_step, steps=steps)
    if gaps or findings:
        score = min(score, BEST_PARTIAL_SCORE)
    health = health_of(findings, score, complete=not gaps)
    if causes:
        score = min(score, 1 - causes[0].confidence / 2)
        health = Health.WARNING if health in (Health.HEALTHY, Health.PARTIAL) else health
    is_over = bool(findings) and not causes and not any(finding.ongoing for finding in findings)
    return Verdict(
        health=health,
        score=score,
        gaps=gaps,
        found=found,
        over_since=max(finding.last_step for finding in findings) if is_over else None,
        cause=causes[0].title if causes else "",
    )
