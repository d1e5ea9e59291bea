"""A report as Markdown, for trackers, issues and chats."""

import re
from collections.abc import Sequence

from tracker_adapters.terminal_text import printable_line
from tracker_adapters.wording import some_of

from debuggers.diagnosis.cause import Cause
from stepscope.report_pages.areas import health_by_area
from stepscope.report_pages.content import SHOWN, ReportContent

_MOST_FINDINGS = 30
_MOST_NAMES = 8
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$])")


def to_markdown(content: ReportContent) -> str:
    """Returns a report as Markdown with tables (GitHub's); what stands in names and messages is escaped."""
    lines = [f"# {_safe(content.title)}", "", f"**Verdict:** {_safe(content.verdict)}", ""]
    for line in content.earlier:
        lines += [_safe(line), ""]
    if content.causes:
        lines += ["## Most likely causes", ""]
        for number, cause in enumerate(content.causes[:SHOWN], start=1):
            lines += [*_cause(number, cause), ""]
        if rest := content.causes[SHOWN:]:
            lines += ["Less likely:", "", *_bullets([str(cause) for cause in rest]), ""]
    else:
        lines += ["No cause was found in what was measured.", ""]
    lines += ["## Health by area", "", "| area | state | why |", "| --- | --- | --- |"]
    lines += [
        f"| {_safe(area.name)} | {'**problem**' if area.state == 'bad' else area.word} | {_safe(area.text)} |"
        for area in health_by_area(content)
    ]
    lines += ["", *_findings(content)]
    for head, texts in (
        ("Where the time goes", content.time),
        ("Architecture", content.architecture),
        ("What was measured", content.measured),
        ("What it cost", content.cost),
        ("What was left out, or failed", content.left_out),
    ):
        if texts:
            lines += [f"## {head}", "", *_bullets(texts), ""]
    return "\n".join(lines).rstrip() + "\n"


def _cause(number: int, cause: Cause) -> list[str]:
    since = "" if cause.since_step is None else f", since step {cause.since_step:,}"
    lines = [f"### {number}. {_safe(cause.title[:1].upper() + cause.title[1:])}", ""]
    lines += [f"`{cause.code}`, confidence {cause.confidence:.0%}{since}", ""]
    if cause.where:
        lines += [f"Where: {some_of([*map(_safe, cause.where)], _MOST_NAMES)}", ""]
    if cause.advice:
        lines += [f"**Try:** {_safe(cause.advice)}", ""]
    for head, texts in (("For", cause.evidence), ("Against", cause.against)):
        if texts:
            lines += [f"{head}:", "", *_bullets(texts), ""]
    return lines[:-1]


def _findings(content: ReportContent) -> list[str]:
    findings = sorted(content.evidence.findings, key=lambda finding: finding.step)
    if not findings:
        return []
    rows = [
        f"| {one.step:,} | {_safe(one.kind)} | {_safe(one.name)} | {_safe(one.evidence)} |"
        for one in findings[:_MOST_FINDINGS]
    ]
    left = len(findings) - len(rows)
    more = ["", f"and {left:,} more"] if left else []
    return [
        "## What was found, in order",
        "",
        "| step | finding | where | evidence |",
        "| --- | --- | --- | --- |",
        *rows,
        *more,
        "",
    ]


def _bullets(texts: Sequence[str]) -> list[str]:
    return [f"- {_safe(text)}" for text in texts]


def _safe(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable_line(text)).replace("&", "&amp;")
