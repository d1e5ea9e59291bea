"""What somebody does in the page goes on while a training writes: focus, selected text, lists, pictures, orders."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from viewer_pages import NEEDS_THE_PAGE, viewer
from waiting import until

import stepscope

pytestmark = NEEDS_THE_PAGE


@pytest.fixture
def training(page, tmp_path):
    """A run that is written, and the address of the page that shows it."""
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        run.image("weights", np.zeros((3, 3), np.uint8), layout="HW", step=0)
        run.table("classes", ["class", "count"], [["a", 30], ["b", 3]], step=0)
        run.histogram("weights/fc", np.arange(9.0), step=0)
        run.describe(environment={"packages": "numpy==2.1\ntorch==2.7"})
        run.flush_store()
        with viewer(tmp_path) as url:
            yield run, url
            page.goto("about:blank")


@contextmanager
def looked_again(page, path):
    """Waits until the page has what was written meanwhile."""
    with page.expect_response(lambda answer: f"api/{path}?" in answer.url and answer.status == 200) as found:
        yield
    found.value.finished()
    page.evaluate("new Promise(requestAnimationFrame)")


def written(run, name="loss", step=1, value=2.0):
    run.scalar(name, value, step=step)
    run.flush_store()


@pytest.mark.slow
def test_text_can_be_selected_and_copied_and_what_is_new_comes_afterwards(page, training):
    run, url = training
    page.goto(f"{url}#/run")
    folder = page.locator("dd", has_text=str(run.path)).first
    folder.evaluate("one => getSelection().selectAllChildren(one)")
    with looked_again(page, "run"):
        written(run)
    assert page.evaluate("String(getSelection())") == str(run.path)
    scalars = page.locator("tr", has=page.get_by_text("scalar", exact=True)).locator("td").last
    expect(scalars).to_have_text("1")
    page.evaluate("getSelection().removeAllRanges()")
    expect(scalars).to_have_text("2")


def test_what_has_the_focus_keeps_it_when_it_is_drawn_again(page, training):
    run, url = training
    page.goto(f"{url}#/run")
    packages = page.locator("summary", has_text="2 entries")
    packages.focus()
    written(run)
    expect(page.locator("tr", has=page.get_by_text("scalar", exact=True)).locator("td").last).to_have_text("2")
    expect(packages).to_be_focused()


@pytest.mark.slow
def test_a_list_that_is_chosen_from_by_keyboard_keeps_the_focus(page, training):
    _, url = training
    page.goto(f"{url}#/histograms")
    page.get_by_label("show", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("show", exact=True)).to_have_value("ridge")
    expect(page.get_by_label("show", exact=True)).to_be_focused()


@pytest.mark.slow
def test_images_and_the_list_below_stay_and_no_series_remains_chosen(page, training):
    run, url = training
    page.goto(f"{url}#/images")
    line = page.get_by_role("img", name="series by step")
    expect(line).to_have_attribute("aria-label", "series by step. live: 1 point, last 1")
    kept = [page.locator(selector).element_handle() for selector in ("figure img", "select[aria-label*=series]")]
    written(run)
    expect(line).to_have_attribute("aria-label", "series by step. live: 2 points, last 2")
    assert [one.evaluate("one => one.isConnected") for one in kept] == [True, True]
    assert kept[1].evaluate("one => { one.options[0].mark = 1; return one.value }") == "loss"
    page.get_by_label("series below").select_option("")
    run.image("weights", np.ones((3, 3), np.uint8), layout="HW", step=5)
    run.flush_store()
    page.get_by_text("step 5 · 2 of 2 steps").wait_for()
    expect(line).to_be_hidden()
    assert kept[1].evaluate("one => one.options[0].mark") == 1
    page.reload()
    page.get_by_text("step 5 · 2 of 2 steps").wait_for()
    expect(line).to_be_hidden()


@pytest.mark.slow
def test_a_table_keeps_its_order(page, training):
    run, url = training
    page.goto(f"{url}#/texts?kind=table")
    numbers = page.locator("tbody td.number")
    page.get_by_role("button", name="count").click()
    expect(numbers).to_have_text(["3", "30"])
    first = numbers.first.element_handle()
    with looked_again(page, "tables"):
        written(run)
    assert first.evaluate("one => one.isConnected")
    run.table("classes", ["class", "count"], [["a", 40], ["b", 4]], step=1)
    run.flush_store()
    expect(numbers).to_have_text(["4", "40"])


@pytest.mark.slow
def test_where_two_runs_part_follows_them(page, tmp_path):
    runs = [stepscope.open_run(tmp_path / name, sinks=[]) for name in ("one", "other")]
    for run, steps in zip(runs, (10, 5), strict=True):
        for step in range(steps):
            run.scalar("loss", 1.0, step=step)
        run.flush_store()
    runs[0].finish()
    with runs[1], viewer(tmp_path / "one", tmp_path / "other") as url:
        page.goto(f"{url}#/compare")
        parting = page.locator(".parting")
        expect(parting).to_contain_text("all are equal at their common steps")
        written(runs[1], step=5, value=7.0)
        expect(parting).to_contain_text("1 differ; first:")
        page.goto("about:blank")


@pytest.mark.slow
def test_a_late_answer_about_another_run_is_not_shown(page, tmp_path):
    with stepscope.open_run(tmp_path / "ended", sinks=[]) as ended:
        ended.scalar("weight_norm/fc.weight", 1.0, step=0)
    with stepscope.open_run(tmp_path / "live", sinks=[]) as run, viewer(tmp_path / "live", tmp_path / "ended") as url:
        written(run, "gradient_norm/fc.weight")
        keys = {one["name"]: one["key"] for one in page.request.get(f"{url}api/runs").json()["runs"]}
        page.goto(f"{url}#/layers")
        statistic = page.get_by_label("statistic", exact=True)
        expect(statistic).to_contain_text("gradient_norm (1)")
        held = []
        page.route(f"**/api/layers?run={keys['live']}", lambda route: held.append(route))  # noqa: PLW0108 - Playwright wants no bound method
        written(run, "gradient_norm/fc.weight", step=2)
        until(lambda: page.evaluate("new Promise(requestAnimationFrame)") and held)
        page.get_by_label("run", exact=True).select_option(keys["ended"])
        expect(statistic).to_contain_text("weight_norm (1)")
        with page.expect_response(lambda answer: answer.url.endswith(f"api/layers?run={keys['live']}")) as late:
            held[0].continue_()
        late.value.finished()
        page.evaluate("new Promise(requestAnimationFrame)")
        assert statistic.locator("option").all_inner_texts() == ["weight_norm (1)"]
        page.unroute_all()
        page.goto("about:blank")


def test_a_layer_that_is_open_follows_its_training(page, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(value):
        loss = model(torch.full((4, 3), value)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.flush_store()

    with (
        stepscope.open_run(tmp_path / "live", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, histogram_every=1) as session,
        viewer(tmp_path) as url,
    ):
        step(1.0)
        step(1.0)
        page.goto(f"{url}#/layers?row=0.weight&step=1")
        details = page.get_by_role("region", name="layer", exact=True)
        picture = details.get_by_role("img")
        expect(picture).to_have_attribute("aria-label", re.compile("steps 0 to 1; live, step 1: 6 elements, 0 NaN"))
        expect(details).to_contain_text("Nothing was found in this layer.")
        link = details.get_by_role("link", name="gradients/0.weight")
        link.focus()
        step(float("nan"))
        expect(picture).to_have_attribute("aria-label", re.compile("steps 0 to 2; live, step 1: 6 elements, 0 NaN"))
        session.report()  # waits for what is still being measured
        run.flush_store()
        expect(details).to_contain_text("non_finite_gradient")
        expect(link).to_be_focused()
        details.get_by_role("button", name="close").click()
        expect(details).to_be_hidden()
        page.reload()
        expect(page.get_by_role("application")).to_be_visible()
        expect(details).to_be_hidden()
        page.goto("about:blank")
