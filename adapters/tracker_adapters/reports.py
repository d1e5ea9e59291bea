"""The reports that sessions leave in a run as texts, and the verdict that each states."""

import re
from dataclasses import dataclass
from typing import Self

from tracker_adapters.artifacts import Text
from tracker_adapters.terminal_text import in_one_line

REPORT_NAME = "stepscope/report"
"""The name of a report, behind the scope of its session."""
PAGE_NAME = "stepscope/page"
"""The name of the file with the viewer's page, which a run records when it closes; see ``page_name``."""
NOTIFICATIONS = "notifications/"
"""How the names of texts begin, behind the scope of their session, that hold a finding as JSON for a webhook."""
VERDICT = "Verdict: "
"""How the line of a report begins that says how the training is."""
WORST_FIRST = ("critical", "warning", "unknown", "no problem in what was checked", "healthy")
"""How verdicts begin, which are the words of ``Health``; trackers are to need nothing of the debuggers."""
_SCORE = re.compile(r"\(score ([\d.]+)\)")


def page_name(attempt: int) -> str:
    """Returns the name of the page that an attempt of a run records: what was recorded before stays."""
    return PAGE_NAME if attempt == 1 else f"{PAGE_NAME}/attempt_{attempt}"


def is_page_name(name: str) -> bool:
    """Tells whether a file of this name is the viewer's page."""
    return name == PAGE_NAME or name.startswith(f"{PAGE_NAME}/attempt_")


def is_report_name(name: str) -> bool:
    """Tells whether a text of this name is a session's report."""
    return f"/{name}".endswith(f"/{REPORT_NAME}")


@dataclass(frozen=True, slots=True)
class Report:
    """What a tracker shows first of a run.

    Attributes:
        scope: That of the session, such as ``D`` after ``run.scoped("D")``; often empty.
        verdict: In one line; empty where the report states none.
        text: All of it, in Markdown.
    """

    scope: str
    verdict: str
    text: str

    @classmethod
    def of(cls, text: Text) -> Self | None:
        """Returns the report that a text is; None for other texts."""
        if not is_report_name(text.name):
            return None
        return cls(text.name.removesuffix(REPORT_NAME).rstrip("/"), verdict_line(text.text), text.text)

    def described(self, told: dict[str, str]) -> str:
        """Returns the description of a run with this report, in Markdown; empty where no report states a verdict.

        It has the verdicts of the sessions with a scope, the worst first, and the whole report of one without.

        Args:
            told: What the run's earlier reports said, by their scopes; this one is added.
        """
        told[self.scope] = self.verdict if self.scope else self.text
        verdicts = {scope: text if scope else verdict_line(text) for scope, text in told.items()}
        worst_first = sorted((scope for scope in told if verdicts[scope]), key=lambda scope: _badness(verdicts[scope]))
        lines = [f"{in_one_line(scope) or 'session without a scope'}: {verdicts[scope]}" for scope in worst_first]
        report = told.get("", "")
        return report if set(told) == {""} else "\n\n".join(filter(None, ["  \n".join(lines), report]))


def verdict_line(report: str) -> str:
    """Returns the verdict that a report states, with its reasons; empty where there is none."""
    line = next((line for line in report.splitlines() if line.startswith(VERDICT)), "")
    return line.removeprefix(VERDICT).rstrip()


def _badness(verdict: str) -> tuple[int, float]:
    """What verdicts are sorted by, the worst first: how healthy, then the score."""
    health = next((place for place, word in enumerate(WORST_FIRST) if verdict.startswith(word)), len(WORST_FIRST))
    score = _SCORE.search(verdict)
    return health, float(score[1]) if score else 1.0
