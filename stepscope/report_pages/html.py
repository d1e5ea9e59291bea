"""A report as one HTML file: the verdict first, then the causes with their evidence, and what it all rests on."""

from collections.abc import Sequence
from html import escape

from tracker_adapters.terminal_text import printable
from tracker_adapters.wording import some_of

from debuggers.diagnosis.cause import Cause
from debuggers.pictures.html_page import bullets, html_page, safe, table
from debuggers.pictures.names import shortened
from debuggers.pictures.svg_lines import line_chart
from debuggers.pictures.svg_map import heat_map
from stepscope.report_pages.areas import health_by_area
from stepscope.report_pages.cause_signals import UNITS, pictures_of
from stepscope.report_pages.content import SHOWN, ReportContent

_MOST_FINDINGS = 100
_MOST_NAMES = 8
_LONGEST_NAME, _LONGEST_TEXT = 120, 600
_GLANCE = ("loss", "validation/loss", "total_norm/gradients", "learning_rate", "update_ratio", "accuracy")
_MAPS = (("gradient_rms", "root mean square of the gradients"), ("parameter_update_ratio", "update ratio |Δw| / |w|"))


def to_html(content: ReportContent) -> str:
    """Returns a report as HTML: one file without scripts, with its pictures inside, for light and dark."""
    return html_page(f"{content.title}: report", "\n".join(_session(content, "")))


def sessions_page(title: str, contents: Sequence[ReportContent]) -> str:
    """Returns the reports of several sessions of one run as HTML, with their verdicts first."""
    if len(contents) == 1:
        return to_html(contents[0])
    rows = [
        f'<tr><td><a href="#session-{number}">{_title(content.title)}</a></td>'
        f'<td class="{content.state or "soft"}">{content.state_word}</td><td>{safe(content.verdict)}</td></tr>'
        for number, content in enumerate(contents, start=1)
    ]
    body = [f"<h1>{_title(title)}</h1>", table("<th>session</th><th>state</th><th>verdict</th>", rows)]
    for number, content in enumerate(contents, start=1):
        inside = "\n".join(_session(content, f"session-{number}-"))
        body.append(f'<section class="session" id="session-{number}">{inside}</section>')
    return html_page(f"{title}: report", "\n".join(body))


def _session(content: ReportContent, anchor: str) -> list[str]:
    """The report of one session; ``anchor`` is what the names of its places begin with."""
    body = [
        f"<h1>{_title(content.title)}</h1>",
        f'<div class="card verdict {content.state}"><p><b>Verdict:</b> {safe(content.verdict)}</p></div>',
        *(f'<p class="soft">{safe(line)}</p>' for line in content.earlier),
        *_causes(content, anchor),
        "<h2>The training at a glance</h2>",
        *_glance(content),
        "<h2>Health by area</h2>",
        *_areas(content, anchor),
        *_timeline(content, anchor),
        *_section("Where the time goes", content.time),
        *_section("Architecture", content.architecture),
        "<h2>What was measured</h2>",
        bullets(content.measured) or _untold(content),
        "<h2>What it cost</h2>",
        bullets(content.cost) or _untold(content),
        "<h2>What was left out, or failed</h2>",
        bullets(content.left_out) or '<p class="soft">Nothing that is known.</p>',
    ]
    if content.text:
        body.append(
            f"<h2>The report as text</h2><details><summary>Show</summary><pre>{escape(printable(content.text))}</pre>"
            "</details>"
        )
    return body


def _untold(content: ReportContent) -> str:
    """Why something is not known that the report of a session tells."""
    if not content.is_observed:
        why = "No debug session has observed this training."
    elif content.running:
        why = "Not known yet: the session tells it when it ends."
    else:
        why = "Not known: the session ended without a report, as when the training is killed."
    return f'<p class="soft">{why}</p>'


def _section(head: str, texts: Sequence[str]) -> list[str]:
    return [f"<h2>{head}</h2>", bullets(texts)] if texts else []


def _causes(content: ReportContent, anchor: str) -> list[str]:
    if not content.causes:
        seen = bool(content.evidence.series or content.evidence.tensors or content.measured)
        text = "No cause was found in what was measured." if seen else "Nothing was measured that causes are found in."
        return [f"<h2>Causes</h2><p>{text}</p>"]
    parts = ["<h2>Most likely causes</h2>"]
    parts += [_cause(number, cause, content, anchor) for number, cause in enumerate(content.causes[:SHOWN], start=1)]
    if rest := content.causes[SHOWN:]:
        parts.append(f"<h4>Less likely</h4>{bullets([str(cause) for cause in rest])}")
    return parts


def _cause(number: int, cause: Cause, content: ReportContent, anchor: str) -> str:
    since = ""
    if cause.since_step is not None:
        known = any(finding.step == cause.since_step for finding in content.evidence.findings[:_MOST_FINDINGS])
        text = f"step {cause.since_step:,}"
        since = f' · since {f"""<a href="#{anchor}step-{cause.since_step}">{text}</a>""" if known else text}'
    parts = [
        f'<section class="card" id="{anchor}cause-{number}"><h3>{number}. {safe(_sentence(cause.title))}</h3>',
        f'<p class="soft"><code>{safe(cause.code)}</code> · confidence {cause.confidence:.0%}{since}</p>',
    ]
    if cause.where:
        parts.append(f"<p>Where: {some_of([*map(_name, cause.where)], _MOST_NAMES)}</p>")
    if cause.advice:
        parts.append(f"<p><b>Try:</b> {safe(cause.advice)}</p>")
    for head, texts in (("What speaks for it", cause.evidence), ("What speaks against it", cause.against)):
        if texts:
            parts.append(f"<h4>{head}</h4>{bullets(texts)}")
    marks = () if cause.since_step is None else (cause.since_step,)
    charts = [
        line_chart(name, lines, unit=UNITS.get(name, ""), marks=marks)
        for name, lines in pictures_of(cause, content.evidence)
    ]
    return f'{"".join(parts)}<div class="pictures">{"".join(charts)}</div></section>'


def _glance(content: ReportContent) -> list[str]:
    evidence = content.evidence
    marks = sorted({cause.since_step for cause in content.causes[:1] if cause.since_step is not None})
    charts = [
        line_chart(name, {name: (evidence[name].steps, evidence[name].values)}, marks=marks)
        for name in _GLANCE
        if len(evidence[name])
    ]
    for name, title in _MAPS:
        if layers := {tensor: (one.steps, one.values) for tensor, one in evidence.of_tensors(name).items()}:
            charts.append(heat_map(title, layers))
    if not charts:
        return ['<p class="soft">No series was recorded.</p>']
    return ['<div class="pictures">', *charts, "</div>"]


def _areas(content: ReportContent, anchor: str) -> list[str]:
    links = {
        safe(cause.title): f'<a href="#{anchor}cause-{number}">{safe(cause.title)}</a>'
        for number, cause in enumerate(content.causes[:SHOWN], start=1)
    }
    rows = []
    for area in health_by_area(content):
        text = safe(area.text)
        for title, link in links.items():
            text = text.replace(title, link)
        state = f'<td class="{area.state or "soft"}">{area.word}</td>'
        rows.append(f"<tr><td>{safe(area.name)}</td>{state}<td>{text}</td></tr>")
    return [table("<th>area</th><th>state</th><th>why</th>", rows)]


def _timeline(content: ReportContent, anchor: str) -> list[str]:
    """The findings in order of their first step; the first at each step can be linked to."""
    findings = sorted(content.evidence.findings, key=lambda finding: finding.step)
    if not findings:
        return []
    rows, linked = [], set[int]()
    for finding in findings[:_MOST_FINDINGS]:
        link = "" if finding.step in linked else f' id="{anchor}step-{finding.step}"'
        linked.add(finding.step)
        rows.append(
            f'<tr{link}><td class="number">{finding.step:,}</td><td class="kind">{safe(finding.kind)}</td>'
            f'<td class="name">{_name(finding.name)}</td>'
            f"<td>{safe(shortened(finding.evidence, _LONGEST_TEXT))}</td></tr>"
        )
    left = len(findings) - len(rows)
    more = f'<p class="soft">and {left:,} more</p>' if left else ""
    head = '<th class="number">step</th><th>finding</th><th>where</th><th>evidence</th>'
    return ["<h2>What was found, in order</h2>", table(head, rows), more]


def _title(title: str) -> str:
    return safe(shortened(title, _LONGEST_NAME))


def _name(name: str) -> str:
    short = shortened(name, _LONGEST_NAME)
    return f"<code>{safe(name)}</code>" if short == name else f'<code title="{safe(name)}">{safe(short)}</code>'


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
