"""What a person sees of a report's page: it opens from a file, leads with the verdict, and breaks with no run."""

import os
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
import torch
from browser import browser_page, chromium, screenshot
from click.testing import CliRunner
from faults import SUPPORT

import stepscope
from debuggers.detectors.finding import Finding
from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series
from stepscope.cli import main
from stepscope.report_pages.content import ReportContent
from stepscope.report_pages.html import sessions_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no chromium here: apt-get install chromium"),
]
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
LONG = "layers." + "x" * 4089
KILLED = "killed"


def train(path, *, steps=40, factor=1.0, scope=""):
    """Trains with a loss that is multiplied by a factor after step 20; scope ``killed`` waits to be."""
    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module('<b>&"first"', torch.nn.Linear(8, 16))
    model.add_module("second", torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        stepscope.open_run(path, sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run.scoped(scope) if scope else run),
    ):
        for step in range(steps):
            optimizer.zero_grad()
            inputs = torch.randn(16, 8)
            loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
            (loss * (factor if step > 20 else 1)).backward()
            optimizer.step()
        if scope == KILLED:
            run.flush_store()
            print("ready", flush=True)
            sys.stdin.read()


@pytest.fixture(scope="module")
def browser():
    with browser_page() as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        yield page


@pytest.fixture
def look(browser, tmp_path):
    """Opens a page in both colour schemes, and returns it: nothing is said in the console, and nothing sticks out."""

    def open_file(file, name):
        said = []
        note_message, note_error = (lambda message: said.append(message.text)), (lambda error: said.append(str(error)))
        browser.on("console", note_message)
        browser.on("pageerror", note_error)
        colours = []
        for scheme in ("dark", "light"):
            browser.emulate_media(color_scheme=scheme)
            browser.goto(file.as_uri())
            assert browser.evaluate("document.documentElement.scrollWidth") == 1280
            colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            screenshot(browser, f"report_{name}_{scheme}", tmp_path)
        browser.remove_listener("console", note_message)
        browser.remove_listener("pageerror", note_error)
        assert said == []
        assert len(set(colours)) == 2
        assert browser.locator("img").count() == 0, "a name was taken for HTML"
        return browser

    return open_file


def trained(folder, **options):
    if options.get("scope") != KILLED:
        train(folder, **options)
        return folder
    command = [sys.executable, __file__, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | SUPPORT, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    return folder


def written(folder):
    target = folder.parent / f"{folder.name}.html"
    done = CliRunner().invoke(main, ["report", str(folder), "--html", str(target)])
    assert done.exit_code == 0, done.output
    return target


@pytest.mark.parametrize(
    ("name", "options", "verdict"),
    [
        ("sound", {}, "healthy"),
        pytest.param("one_step", {"steps": 1}, "no problem in what was checked", marks=pytest.mark.slow),
        ("nan", {"factor": float("nan")}, "critical"),
        pytest.param(KILLED, {"scope": KILLED}, "problems in 40 steps", marks=pytest.mark.slow),
    ],
)
def test_a_run_of_each_fate_has_its_verdict_first(look, tmp_path, name, options, verdict):
    page = look(written(trained(tmp_path / name, **options)), name)

    card = page.locator(".verdict")
    assert verdict in card.inner_text()
    assert card.bounding_box()["y"] < 200
    assert page.locator("figure.line svg").count() >= 4
    assert page.get_by_text('<b>&"first".weight').count() >= 1
    if name == KILLED:
        assert page.get_by_text("The run ended without success: it failed, or was killed.").is_visible()


def test_an_empty_run_says_that_nothing_is_known(look, tmp_path):
    with closing(stepscope.open_run(tmp_path / "empty", sinks=[])):
        pass

    page = look(written(tmp_path / "empty"), "empty")

    assert "healthy" not in page.locator("body").inner_text()
    assert page.get_by_text("Nothing was measured that causes are found in.").is_visible()


BROKEN_WORDS = """() => {
  const found = [];
  for (const cell of document.querySelectorAll("td, th")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


def test_on_a_phone_only_words_that_are_longer_than_their_cell_break_and_wide_tables_scroll_by_themselves(tmp_path):
    findings = tuple(
        Finding(
            kind=kind, name=name, level="warning", step=1_234_567, last_step=1_234_567, steps=1, ongoing=True,
            value=2.0, threshold=1.0, evidence="standard deviation 0.292 of the output", rule="",
        )
        for kind, name in (("unequal_variances", "inputs/mean"), ("off_centre_inputs", "x" * 40))
    )  # fmt: skip
    sound = ReportContent(title="run (good)", text="Verdict: no problem in what was checked (score 0.99): a gap.")
    found = ReportContent(
        title="run (bad)", text="Verdict: warning (score 0.53).", evidence=Evidence(findings=findings)
    )
    file = tmp_path / "report.html"
    file.write_text(sessions_page("run", [found, sound]), encoding="utf-8")
    with browser_page() as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(file.as_uri())
        screenshot(page, "report_phone", tmp_path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate(BROKEN_WORDS) == ["x" * 40]
        scrolls = page.locator(".wide").evaluate_all("boxes => boxes.map((box) => box.scrollWidth > box.clientWidth)")
        assert scrolls == [False, False, True, False]


def test_links_lead_to_the_causes_their_charts_and_the_first_finding(look, tmp_path):
    page = look(written(trained(tmp_path / "run", factor=float("nan"))), "links")

    page.locator("table a").first.click()
    cause = page.locator(":target")
    assert cause.get_attribute("id").startswith("cause-") and cause.locator("figure svg").first.is_visible()
    page.locator("section.card a").first.click()
    row = page.locator(":target")
    assert row.get_attribute("id").startswith("step-") and row.locator("td").first.inner_text() == "21"


@pytest.mark.slow
def test_ten_thousand_and_endless_and_hostile_names_do_not_break_the_page(look, tmp_path):
    steps = np.arange(30)
    names = [LONG, HOSTILE, *(f"layers.{number}.weight" for number in range(9_998))]
    series = {name: Series(steps, np.exp(-steps / (1 + number % 7))) for number, name in enumerate(names)}
    findings = tuple(
        Finding(
            kind="exploding_gradient", name=name, level="error", step=3, last_step=9, steps=6, ongoing=True,
            value=1e6, threshold=1.0, evidence=f"the norm of {name} is 1e6", rule="",
        )
        for name in names
    )  # fmt: skip
    evidence = Evidence(findings=findings, tensors={"gradient_rms": series}, series={"loss": series[LONG]})
    cause = Cause(
        code="exploding_gradients", confidence=0.9, since_step=3, where=tuple(names), evidence=(LONG, HOSTILE)
    )
    contents = [
        ReportContent(title=title, text=f"Verdict: critical: {HOSTILE}.", causes=(cause,), evidence=evidence)
        for title in (HOSTILE, LONG)
    ]
    target = tmp_path / "many.html"
    target.write_text(sessions_page("many", contents), encoding="utf-8")

    page = look(target, "many")

    assert target.stat().st_size < 2_000_000
    page.get_by_role("link", name=HOSTILE).first.click()
    assert page.locator(":target").get_attribute("id") == "session-1"
    assert page.get_by_text("and 9992 more").first.is_visible()


def test_every_scope_has_its_part(look, tmp_path):
    with stepscope.open_run(tmp_path / "gan", sinks=[]) as run:
        for scope in ("G", "D"):
            for step in range(20):
                run.scoped(scope).scalar("total_norm/gradients", 1.0 / (step + 1), step=step)

    page = look(written(tmp_path / "gan"), "scopes")

    page.get_by_role("link", name="gan (G)").click()
    assert page.locator(":target h1").inner_text() == "gan (G)"


if __name__ == "__main__":
    train(sys.argv[1], factor=float("nan"), scope=KILLED)
