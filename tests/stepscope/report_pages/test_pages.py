"""A report's pages lead with the verdict and the causes, escape everything, and call nothing healthy unseen."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.cause import TITLES, Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.series import Series
from debuggers.diagnosis.signals import OF_A_STEP, OF_LAYERS, OF_PARAMETERS, RECORDED_ELSEWHERE
from debuggers.observed_training.invariants import INVARIANTS
from stepscope.report_pages.areas import AREAS, health_by_area
from stepscope.report_pages.cause_signals import SIGNALS, pictures_of
from stepscope.report_pages.content import ReportContent
from stepscope.report_pages.html import sessions_page, to_html
from stepscope.report_pages.markdown import to_markdown

HOSTILE = "<script>alert('1')</script>|`*\x1b[31m"
STEPS = np.arange(20)
CODES = ("learning_rate_too_high", "dead_units", "wrong_mode", "no_update")
VOID = {"meta", "br"}


def finding(kind, step, level="warning"):
    return Finding(
        kind=kind, name=HOSTILE, level=level, step=step, last_step=step, steps=1, ongoing=True,
        value=2.0, threshold=1.0, evidence=f"2 is too much {HOSTILE}", rule="",
    )  # fmt: skip


def content(**changes):
    evidence = Evidence(
        findings=(finding("large_update", 3), finding("non_finite_loss", 9, "error")),
        series={"loss": Series(STEPS, np.where(STEPS < 9, 1.0, np.nan)), "update_ratio": Series(STEPS, STEPS / 20)},
        tensors={"gradient_rms": {HOSTILE: Series(STEPS, np.exp(-STEPS))}},
        facts=Facts(steps=20, not_told=("pass targets=",), error=f"ValueError: {HOSTILE}"),
    )
    causes = tuple(
        Cause(code=code, confidence=sure, since_step=3, where=(HOSTILE,), evidence=(f"it is {HOSTILE}",),
              against=("it could be luck",), advice="lr: 0.1 → 0.01")
        for code, sure in zip(CODES, (0.9, 0.7, 0.6, 0.5), strict=True)
    )  # fmt: skip
    text = f"Verdict: critical (score 0.10): large_update (1).\nChecked: all 20 steps.\nOverhead: 1 ms.\n{HOSTILE}"
    return ReportContent(**{"title": HOSTILE, "text": text, "causes": causes, "evidence": evidence} | changes)


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_without_scripts_and_its_links_lead_somewhere():
    page = to_html(content())
    tags = Tags(page)

    assert tags.open == []
    assert "script" not in {tag for tag, _ in tags.seen} and "\x1b" not in page
    links = [attrs["href"] for tag, attrs in tags.seen if tag == "a"]
    assert links and all(link[1:] in {attrs.get("id") for _, attrs in tags.seen} for link in links)
    assert all(attrs.get("aria-label") for tag, attrs in tags.seen if tag == "svg")


@pytest.mark.parametrize("render", [to_html, to_markdown])
def test_a_page_leads_with_the_verdict_and_three_causes(render):
    page = render(content())

    order = ["critical (score 0.10)", "The learning rate is too high", "lr: 0.1",
             "Units are dead", "The model is in the wrong",
             "Less likely", "no_update", "Health by area", "What was measured", "all 20 steps", "What it cost", "1 ms",
             "left out", "pass targets="]  # fmt: skip
    places = [page.replace("\\_", "_").find(text) for text in order]
    assert -1 not in places and places == sorted(places)
    assert "it could be luck" in page and "step 3" in page


def test_nothing_in_markdown_is_taken_for_markup():
    page = to_markdown(content())

    assert not re.search(r"(?<!\\)<", page) and "\x1b" not in page
    rows = [line for line in page.splitlines() if line.startswith("| 3 ")]
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 5


def test_an_empty_report_says_that_nothing_is_known():
    empty = ReportContent(title="run")

    assert {area.text for area in health_by_area(empty)} == {"not measured"}
    assert empty.state == ""
    assert Tags(to_html(empty)).open == []
    assert "healthy" not in to_html(empty) + to_markdown(empty)
    assert to_html(empty).count("No debug session has observed this training.") >= 2


@pytest.mark.parametrize(
    ("running", "why"),
    [(True, "Not known yet: the session tells it when it ends."), (False, "the session ended without a report")],
)
def test_a_cost_that_no_report_tells_is_not_known(running, why):
    untold = content(text="", running=running)

    assert why in to_html(untold).partition("<h2>What it cost</h2>")[2]
    assert why not in to_html(content())


def test_areas_tell_what_was_found_what_was_measured_and_what_was_not():
    states = {area.name: (area.state, area.text) for area in health_by_area(content(causes=()))}

    assert states["outputs and loss"] == ("bad", "found: non_finite_loss")
    assert states["weights and updates"] == ("warn", "found: large_update")
    assert states["gradients"] == ("good", "nothing found in 20 measured values")
    assert states["time and memory"] == ("", "not measured")
    assert "other" not in states
    noted = content(causes=(), evidence=Evidence(findings=(finding("slow_step", 3, "info"),)))
    words = {area.name: area.word for area in health_by_area(noted)}
    assert (words["time and memory"], words["gradients"]) == ("noted", "not measured")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Verdict: healthy.", "healthy"),
        ("Verdict: no problem in what was checked (score 0.99): a gap.", "no problem seen"),
        ("", "no verdict"),
    ],
)
def test_only_a_session_that_looked_at_nothing_is_without_a_verdict(text, word):
    quiet = ReportContent(title="run (good)", text=text)
    page = sessions_page("run", [content(title="run (bad)"), quiet])
    table = page[: page.index("</table>")]
    assert f">{word}</td>" in table and ">problem</td>" in table
    assert "not measured" not in table


def test_each_kind_of_finding_has_an_area():
    # A test of the page compares it with the rules.
    page = (Path(__file__).parents[3] / "docs" / "detectors.md").read_text(encoding="utf-8")
    kinds = {*re.findall(r"^\| `[A-Z]\w+` \| `(\w+)`", page, re.MULTILINE), *(one.name for one in INVARIANTS)}
    assert len(kinds) > 50
    evidence = Evidence(findings=tuple(finding(kind, 1, "info") for kind in sorted(kinds)))
    homeless = content(causes=(), evidence=evidence)
    assert [area.text for area in health_by_area(homeless) if area.name == "other"] == []


def test_an_area_is_bad_by_a_likely_cause_alone_and_so_is_the_verdict():
    causes = (Cause(code="no_update", confidence=0.9), Cause(code="class_imbalance", confidence=0.5))
    given = ReportContent(title="run", causes=causes, evidence=Evidence(facts=Facts(steps=9, model="Net")))
    assert [area.state for area in health_by_area(given) if area.state] == ["warn", "bad"]
    assert "steps change no weights" in given.verdict
    assert "class" not in given.verdict


def test_an_area_with_what_follows_from_a_likely_cause_elsewhere_is_not_called_good():
    series = {"output_std": {"fc": Series(STEPS, np.ones(20))}}
    for codes, state in (((), "good"), (("dead_units",), "good"), (("learning_rate_too_high", "dead_units"), "warn")):
        causes = tuple(Cause(code=code, confidence=0.4 if code == "dead_units" else 0.9) for code in codes)
        given = ReportContent(title="run", causes=causes, evidence=Evidence(tensors=series, facts=Facts(steps=20)))
        layers = next(area for area in health_by_area(given) if area.name == "layers")
        assert (layers.state, "units are dead" in layers.text) == (state, state == "warn")


def test_each_cause_has_an_area_and_pictures_that_exist():
    codes = [code for area in AREAS for code in area.codes]
    known = {one.name for one in (*OF_A_STEP, *OF_PARAMETERS, *OF_LAYERS, *RECORDED_ELSEWHERE)}

    assert sorted(codes) == sorted(TITLES)
    assert SIGNALS.keys() <= TITLES.keys()
    assert {name for names in SIGNALS.values() for name in names} <= known
    assert {name for area in AREAS for name in area.signals} <= known


def test_a_cause_is_shown_by_its_signals_or_the_loss():
    evidence = content().evidence

    assert [name for name, _ in pictures_of(Cause(code="learning_rate_too_high", confidence=1), evidence)] == [
        "update_ratio",
        "loss",
    ]
    assert [name for name, _ in pictures_of(Cause(code="rank_desync", confidence=1), evidence)] == ["loss"]


def test_pages_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['matplotlib'] = None\n"
        "from stepscope.report_pages.content import ReportContent\n"
        "from stepscope.report_pages.html import to_html\nfrom stepscope.report_pages.markdown import to_markdown\n"
        "print(len(to_html(ReportContent(title='run')) + to_markdown(ReportContent(title='run'))) > 1000)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "True"
