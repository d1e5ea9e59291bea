"""One word for a session, its score, and what to do: from findings and from what was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from debuggers.detectors import Finding
from debuggers.gradients.health import Health, health_of, health_score
from stepscope.sessions.coverage import Coverage

BEST_PARTIAL_SCORE = 0.99
"""The best score where not everything was looked at, or anything was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a training is, as far as it was seen.

    Attributes:
        health: Healthy only if all was looked at that a ``Coverage`` knows of, and nothing was found.
        score: From 0 to 1 by ``health_score`` over all findings of the session, at most 0.99 where something was found
            or not looked at; None where nothing was looked at.
        gaps: What was not looked at.
        found: How many findings there are of each kind.
        over_since: The last step at which there was anything wrong, if everything is over; None if something goes on,
            and where nothing was found.
    """

    health: Health
    score: float | None
    gaps: tuple[str, ...]
    found: Mapping[str, int]
    over_since: int | None = None

    def __str__(self) -> str:
        """The verdict in one sentence."""
        text = str(self.health)
        if self.over_since is not None:
            text += f", over since step {self.over_since}"
        if self.score is not None:
            # Never rounded up to a full score.
            text += f" (score {min(self.score, 0.99) if self.score < 1 else 1:.2f})"
        if not self.found:
            return f"{text}: {'; '.join(self.gaps)}." if self.gaps else f"{text}."
        text += ": " + ", ".join(f"{kind} ({count})" for kind, count in self.found.items()) + "."
        return f"{text} Beside that: {'; '.join(self.gaps)}." if self.gaps else text


def verdict_of(findings: Sequence[Finding], coverage: Coverage) -> Verdict:
    """Judges a session.

    Args:
        findings: All of them.
        coverage: What was looked at.
    """
    gaps = coverage.gaps
    found = Counter(finding.kind for finding in findings)
    if not coverage.probed and not findings:
        return Verdict(health=Health.UNKNOWN, score=None, gaps=gaps, found=found)
    cells = coverage.measured * max(1, coverage.parameters)
    score = health_score(findings, cells, last_step=coverage.last_step, steps=coverage.steps)
    if gaps or findings:
        score = min(score, BEST_PARTIAL_SCORE)
    is_over = bool(findings) and not any(finding.ongoing for finding in findings)
    return Verdict(
        health=health_of(findings, score, complete=not gaps),
        score=score,
        gaps=gaps,
        found=found,
        over_since=max(finding.last_step for finding in findings) if is_over else None,
    )
