"""What a person sees and does in the views Verdict, Layers and Histograms: real trainings, server and browser."""

import os
import re
import signal
import sys

import numpy as np
import pytest
from observed_runs import train
from playwright.sync_api import expect
from viewer_pages import NEEDS_THE_PAGE, serious_findings, viewer

import stepscope

pytestmark = NEEDS_THE_PAGE
HOSTILE = "<img src=x onerror=alert(1)>\"&'"
LONG = "blocks." + "x" * 970
KILLED = f"""
import os, signal, sys
sys.path[1:1] = {sys.path!r}
import stepscope
from observed_runs import train
run = stepscope.open_run(sys.argv[1], sinks=[])
train(run, nan_at=5)
run.flush_store()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory, warm_python):
    folder = tmp_path_factory.mktemp("runs")
    with stepscope.open_run(folder / "sick", sinks=[]) as run:
        train(run, nan_at=5, histogram_every=1)
    with stepscope.open_run(folder / "healthy", sinks=[]) as run:
        train(run, histogram_every=1)
    with stepscope.open_run(folder / "gan", sinks=[]) as run:
        train(run.scoped("G"))
        train(run.scoped("D"), nan_at=5)
    with stepscope.open_run(folder / "hostile", sinks=[]) as run:
        for step in range(5):
            for name in (HOSTILE, LONG):
                run.scalar(f"gradient_norm/{name}", step + 1.0, step=step)
                run.histogram(f"gradients/{name}", np.arange(step + 2.0), step=step)
        run.alert(HOSTILE, HOSTILE, step=1, level="warning")
    program = tmp_path_factory.mktemp("program")
    (program / "killed.py").write_text(KILLED)
    ended = warm_python.run(["killed.py", str(folder / "killed")], folder=program, environment=os.environ)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    with stepscope.open_run(folder / "living", sinks=[]) as living:
        train(living, steps=10)
        living.flush_store()
        with viewer(folder) as url:
            yield url


def go(page, url, view, *names, **params):
    keys = {run["name"]: run["key"] for run in page.request.get(f"{url}api/runs").json()["runs"]}
    more = "".join(f"&{name}={value}" for name, value in params.items())
    page.goto(f"{url}#/{view}?runs={','.join(keys[name] for name in names)}{more}")


def test_the_worst_run_comes_first_and_its_cause_leads_to_charts_and_layers(page, served):
    go(page, served, "verdict", "healthy", "sick")
    cards = page.locator(".verdict-card")
    expect(cards.first.locator("h2")).to_contain_text("sick")
    expect(cards.last.locator(".says .state")).to_have_text("healthy")
    cause = cards.first.locator(".cause").first
    expect(cause.locator("h4")).to_have_text("1. The inputs hold NaN or infinities")
    expect(cause.locator(".small-chart canvas").first).to_be_visible()
    assert not serious_findings(page)
    cause.get_by_role("link", name="step 5").first.click()
    expect(page.locator(".board .card").first).to_be_visible()
    assert "zoom=0%2C15" in page.url.replace(",", "%2C") and "non_finite" in page.url
    page.go_back()
    cards.first.locator(".found a code").first.click()
    expect(page.locator(".details h2")).to_contain_text("0.weight")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("killed", "it failed, or was killed"),
        pytest.param("living", "this is what can be said so far", marks=pytest.mark.slow),
        pytest.param("gan", "session D", marks=pytest.mark.slow),
        ("hostile", "To get a verdict, watch the model"),
    ],
)
def test_a_run_in_any_state_has_a_verdict(page, served, name, said):
    go(page, served, "verdict", name)
    expect(page.locator(".verdict-card")).to_contain_text(said)
    assert page.locator("img").count() == 0


def test_the_keyboard_moves_over_the_layers_and_opens_one(page, served):
    go(page, served, "layers", "sick")
    heat_map = page.get_by_role("application")
    heat_map.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        heat_map.press(key)
    expect(page.locator(".says-cell")).to_contain_text("0.bias · step 2 ·")
    heat_map.press("+")
    assert "steps 0 to 39" not in heat_map.get_attribute("aria-label")
    heat_map.press("Enter")
    expect(page.locator(".details canvas").first).to_be_visible()
    expect(page.locator(".details")).to_contain_text("non_finite_gradient")
    page.get_by_label("search for layers").fill("2.")
    assert "2 of 4 layers" in heat_map.get_attribute("aria-label")
    assert not serious_findings(page)


def test_histograms_of_two_runs_lie_over_each_other_in_each_form(page, served):
    go(page, served, "histograms", "healthy", "sick", search="0.weight")
    card = page.locator(".histogram-card").first
    expect(card.locator("li")).to_have_count(2)
    for mode in ("ridge", "percentiles", "step", "heat"):
        page.get_by_label("show").select_option(mode)
        expect(card.locator("canvas")).to_be_visible()
    page.get_by_label("step", exact=True).fill("3")
    expect(card.locator("li").first).to_contain_text("step 3: ")
    assert not serious_findings(page)


@pytest.mark.slow
def test_histograms_are_in_the_groups_of_their_names(page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for name in ("logits", "general/logits", "a/fc.weight"):
            run.histogram(name, [0.0, 1.0], step=0)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/histograms")
        expect(page.locator("h2.group")).to_have_count(3)
        assert sorted(page.locator("h2.group").all_text_contents()) == ["a 1", "general 1", "general 1"]
        page.goto("about:blank")


def test_histograms_are_those_of_the_rank_that_is_chosen(page, tmp_path):
    for rank, count in enumerate((10, 20)):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            run.histogram("weights/fc", np.arange(count), step=0)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/histograms")
        counts = page.locator(".histogram-card .counts")
        expect(counts).to_contain_text("10 elements")
        page.get_by_label("rank", exact=True).select_option("1")
        expect(counts).to_contain_text("20 elements")
        page.go_back()
        expect(counts).to_contain_text("10 elements")
        page.goto("about:blank")


@pytest.mark.slow
def test_an_address_opens_its_layer_where_another_one_is_open(page, served):
    go(page, served, "layers", "healthy", row="0.weight")
    opened = page.locator(".details h2 code")
    expect(opened).to_have_text("0.weight")
    go(page, served, "layers", "healthy", row="2.bias", step=7)
    expect(opened).to_have_text("2.bias")
    expect(page.get_by_role("link", name="its chart at step 7")).to_be_visible()
    page.get_by_role("navigation", name="views").get_by_role("link", name="Layers").click()
    expect(opened).to_be_hidden()
    page.go_back()
    expect(opened).to_have_text("2.bias")
    page.get_by_label("search for layers").fill("0.")
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("2 of 4 layers"))
    expect(page.locator(".says-cell")).to_contain_text("Arrow keys move")
    page.get_by_label("search for layers").fill("bias")
    page.get_by_role("application").press("ArrowDown")
    page.get_by_role("application").press("ArrowDown")
    expect(page.locator(".says-cell")).to_contain_text("2.bias")
    page.get_by_label("search for layers").fill("2.")
    expect(page.locator(".says-cell")).to_contain_text("2.bias")
    page.get_by_label("search for layers").fill("weight")
    page.reload()
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("2 of 4 layers"))
    expect(opened).to_have_text("2.bias")


def test_hostile_and_long_names_are_shown_as_text(page, served):
    go(page, served, "layers", "hostile")
    expect(page.get_by_role("application")).to_be_visible()
    page.get_by_role("application").press("Enter")
    expect(page.locator(".details h2")).to_be_visible()
    go(page, served, "histograms", "hostile")
    expect(page.locator(".histogram-card").first).to_be_visible()
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_layers_say_where_a_run_goes_on_unmeasured(page, tmp_path):
    with stepscope.open_run(tmp_path / "governed", sinks=[]) as run:
        for step in range(100):
            run.scalar("gradient_norm/fc.weight", 1.0, step=step)
        run.scalar("loss", 1.0, step=1721)
    with viewer(tmp_path) as url:
        page.goto(f"{url}#/layers")
        expect(page.locator(".view > .note")).to_contain_text("measured up to step 99 of 1,721")
        page.goto("about:blank")


@pytest.mark.slow
def test_the_choices_of_layers_stay_while_a_training_writes(page, tmp_path):
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run, viewer(tmp_path) as url:
        run.scalar("gradient_norm/fc.weight", 1.0, step=0)
        run.flush_store()
        page.goto(f"{url}#/layers")
        scale = page.get_by_label("scale", exact=True)
        kept = scale.element_handle()
        scale.focus()
        run.scalar("gradient_norm/fc.weight", 2.0, step=7)
        run.flush_store()
        expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("over steps 0 to 7"))
        assert kept.evaluate("select => select.isConnected && select === document.activeElement")
        page.get_by_label("statistic", exact=True).focus()
        run.scalar("gradient_norm/head.weight", 2.0, step=9)
        run.flush_store()
        expect(page.get_by_label("statistic", exact=True)).to_contain_text("(2)")
        expect(page.get_by_label("statistic", exact=True)).to_be_focused()
        page.goto("about:blank")
