"""Datapoints, images, texts, tables, curves, files and alerts as a person sees them in the viewer's page."""

import re

import numpy as np
import psutil
import pytest
from viewed_datapoints import SCRIPT, record_hostile, record_many, train
from viewer_pages import NEEDS_THE_PAGE, serious_findings, viewer, viewer_page
from waiting import until

import stepscope

pytestmark = NEEDS_THE_PAGE


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    for seed in range(2):
        train(folder / f"runs/digits-{seed}", seed)
    record_many(folder)
    record_hostile(folder)
    with viewer(folder / "runs") as address, viewer_page() as (page, complaints):
        keys = {}

        def find_runs():
            runs = page.request.get(f"{address}api/runs").json()["runs"]
            keys.update({run["name"]: run["key"] for run in runs})
            return runs

        def show(view, names, **params):
            query = "&".join(f"{key}={value}" for key, value in params.items())
            page.goto("about:blank")
            page.goto(f"{address}#/{view}?runs={','.join(keys[name] for name in names)}&{query}")
            return page

        find_runs()
        show.find_runs = find_runs
        show.keys, show.complaints, show.page, show.address, show.folder = keys, complaints, page, address, folder
        yield show


@pytest.fixture(autouse=True)
def _no_complaints(page):
    page.complaints.clear()
    yield
    assert page.complaints == []


def test_a_datapoint_shows_its_four_sections_with_pictures(page):
    shown = page("datapoints", ["digits-0"], idx=5)
    shown.get_by_role("heading", name="Datapoint 5").wait_for()
    for heading in ("Inputs", "Labels and outputs", "Meta information", "Debug outputs"):
        assert shown.get_by_role("heading", name=heading).is_visible()
    until(lambda: shown.evaluate("[...document.images].every((image) => image.complete)"))
    sizes = shown.eval_on_selector_all(".pictures img", "all => all.map((one) => [one.alt, one.naturalWidth])")
    assert all(width > 0 for _, width in sizes)
    alts = [alt for alt, _ in sizes]
    assert "gradcam: over the input" in alts
    assert "attention_map: attention to each place of the input" in alts
    assert "feature_map: map" in alts
    assert SCRIPT in shown.locator(".meta_info").inner_text()


def test_keys_move_and_filters_leave_the_wrong_ones_and_the_address_keeps_both(page):
    shown = page("datapoints", ["digits-0"])
    shown.get_by_role("heading", name="Datapoint 0").wait_for()
    shown.keyboard.press("ArrowRight")
    shown.get_by_role("heading", name="Datapoint 1").wait_for()
    shown.keyboard.press("k")
    shown.get_by_role("heading", name="Datapoint 0").wait_for()
    shown.get_by_label("show", exact=True).select_option("wrong")
    shown.get_by_label("order").select_option("loss")
    rows = shown.locator(".row .bad").filter(has_text="✗")
    rows.first.wait_for()
    assert rows.count() == shown.locator(".row").count()
    first = shown.locator(".row .idx").first.inner_text()
    shown.locator(".row").filter(has=shown.get_by_text(first, exact=True)).click()
    shown.get_by_role("heading", name=f"Datapoint {first}", exact=True).wait_for()
    address = shown.url
    assert "show=wrong" in address
    assert f"idx={first}" in address
    shown.goto("about:blank")
    shown.goto(address)
    shown.get_by_role("heading", name=f"Datapoint {first}", exact=True).wait_for()
    assert shown.get_by_label("show", exact=True).input_value() == "wrong"


@pytest.mark.slow
def test_a_click_is_not_lost_when_the_list_is_drawn_again_before_the_button_is_let_go(page):
    shown = page("datapoints", ["digits-0"])
    row = shown.locator(".row").nth(3)
    row.hover()
    shown.mouse.down()
    shown.locator(".row-list").evaluate("list => list.dispatchEvent(new Event('scroll'))")
    shown.mouse.up()
    shown.get_by_role("heading", name="Datapoint 3", exact=True).wait_for()
    shown.locator(".row").filter(has_text="✓").first.wait_for()  # what waited is drawn


@pytest.mark.slow
def test_a_debugger_and_a_label_can_be_chosen(page):
    shown = page("datapoints", ["digits-0"], debugger="cam")
    shown.locator(".outputs.debug .node > summary").first.wait_for()
    assert shown.locator(".outputs.debug > .nodes > .node > summary").all_inner_texts() == ["cam"]
    shown.get_by_label("label", exact=True).select_option("7")
    until(lambda: shown.evaluate("document.querySelectorAll('.row').length < 10"))
    assert all("7 →" in text for text in shown.locator(".row").all_inner_texts())


def test_two_epochs_lie_side_by_side_with_what_changed_most(page):
    run = page.keys["digits-0"]
    shown = page("datapoints", ["digits-0", "digits-1"], epoch=f"{run}:0.0", beside=f"{run}:0.1", sort="changed", idx=3)
    shown.get_by_role("columnheader", name="relative").wait_for()
    assert shown.locator(".side-column").count() == 2
    titles = shown.locator("h3.side").all_inner_texts()
    assert ["epoch_0" in titles[0], "epoch_1" in titles[1]] == [True, True]
    shown.locator(".changes").get_by_text("datapoint/outputs").first.wait_for()
    shown.locator(".row", has_text="Δ").first.wait_for()
    other = page.keys["digits-1"]
    shown = page("datapoints", ["digits-0", "digits-1"], epoch=f"{run}:0.1", beside=f"{other}:0.1", idx=3)
    shown.locator("h3.side").nth(1).wait_for()
    assert ["digits-0" in text for text in shown.locator("h3.side").all_inner_texts()] == [True, False]


@pytest.mark.slow
def test_ten_thousand_datapoints_scroll_and_filter(page):
    shown = page("datapoints", ["many"])
    shown.get_by_text("2,500 of 10,000 judged are wrong").wait_for()
    assert shown.locator(".row").count() < 100
    shown.locator(".row-list").focus()
    shown.keyboard.press("End")
    shown.get_by_role("heading", name="Datapoint 9999").wait_for()
    shown.get_by_label("search an index").fill("77")
    shown.get_by_text("111 datapoints of 10,000").wait_for()


def test_a_hostile_page_is_one_error_and_a_crash_of_what_opens_pages_is_none(page):
    shown = page("datapoints", ["hostile"], idx=0)
    shown.get_by_text("page_0.pkl").or_(shown.get_by_text("refused")).first.wait_for()
    assert not (page.folder / "executed").exists()
    shown.locator(".row").nth(1).click()
    shown.get_by_role("heading", name="Datapoint 1").wait_for()
    children = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    opening = [one for one in children if "stepscope.viewer.outputs.page_child" in one.cmdline()]
    assert opening
    for one in opening:
        one.kill()
        one.wait()
    shown.locator(".row").nth(0).click()
    shown.locator(".detail .bad", has_text="refused").first.wait_for()
    shown.goto("about:blank")  # what is asked for still may be refused, too
    page.complaints[:] = [text for text in page.complaints if "410" not in text]  # the browser's word for the refusal


def test_images_of_every_step_with_the_loss_below(page):
    shown = page("images", ["digits-0", "digits-1"], name="weights", step=0)
    shown.get_by_text("step 0 · 1 of 30 steps").wait_for()
    pictures = shown.locator(".figures img")
    assert pictures.count() == 2
    first = pictures.first.get_attribute("src")
    shown.keyboard.press("ArrowRight")
    shown.get_by_text("step 1 · 2 of 30 steps").wait_for()
    assert pictures.first.get_attribute("src") != first
    shown.keyboard.press("End")
    shown.get_by_text("step 29 · 30 of 30 steps").wait_for()
    until(lambda: shown.evaluate("[...document.images].every((image) => image.naturalWidth === 3)"))
    assert pictures.first.evaluate("one => getComputedStyle(one).imageRendering") == "pixelated"
    assert pictures.first.bounding_box()["height"] > 200
    canvas = shown.get_by_role("img", name="series by step")
    assert "digits-1: 30 points" in canvas.get_attribute("aria-label")
    canvas.click(position={"x": 70, "y": 50})
    shown.get_by_text("step 0 · 1 of 30 steps").wait_for()


@pytest.mark.slow
def test_where_a_run_lacks_the_name_that_is_asked_for_its_first_one_is_shown(page):
    shown = page("images", ["digits-0"], name="gone")
    shown.locator(".figures img").wait_for()
    shown = page("texts", ["digits-0"], name="gone")
    shown.locator(".markdown").wait_for()


@pytest.mark.slow
def test_images_of_a_training_that_runs_come_without_a_reload(page):
    with stepscope.open_run(page.folder / "runs/live", sinks=[]) as run:
        run.at(0).image("weights", np.zeros((3, 3), np.uint8), layout="HW")
        run.flush()
        until(lambda: page.find_runs() and "live" in page.keys)
        shown = page("images", ["live"])
        shown.get_by_text("step 0 · 1 of 1 step").wait_for()
        run.at(5).image("weights", np.ones((3, 3), np.uint8), layout="HW")
        run.flush()
        shown.get_by_text("step 5 · 2 of 2 steps").wait_for()


@pytest.mark.slow
def test_images_and_texts_of_every_rank_can_be_chosen(page, monkeypatch):
    for rank in (1, 2):
        monkeypatch.setenv("RANK", str(rank))
        with stepscope.open_run(page.folder / "runs/ranks", sinks=[], resume=rank > 1) as run:
            for step in range(rank):
                run.at(step).image(f"weights-{rank}", np.zeros((rank, rank), np.uint8), layout="HW")
                run.at(step).text("note", f"rank {rank} says {step}")
                run.at(step).table("scores", ["score"], [[rank]])
    until(lambda: page.find_runs() and "ranks" in page.keys)
    shown = page("images", ["ranks"])
    shown.get_by_text("step 0 · 1 of 1 step").wait_for()
    shown.get_by_label("rank").select_option("2")
    shown.get_by_text("step 1 · 2 of 2 steps").wait_for()
    until(lambda: shown.evaluate("[...document.images].every((image) => image.naturalWidth === 2)"))
    assert "rank=2" in shown.url

    shown = page("texts", ["ranks"])
    shown.get_by_text("rank 1 says 0").wait_for()
    shown.get_by_label("rank").select_option("2")
    shown.get_by_text("rank 2 says 1").wait_for()
    shown.get_by_role("tab", name="Tables").click()
    shown.locator("tbody td.number", has_text="2").wait_for()
    shown.get_by_label("rank").select_option("1")
    shown.locator("tbody td.number", has_text="1").wait_for()
    assert "rank=" not in shown.url


@pytest.mark.parametrize(
    "names",
    [
        ("marks", "long"),
        pytest.param(("blanks", "heading", "cells", "nested", "long"), marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_hostile_markdown_is_shown_at_once(page, names):
    hostile = {
        "blanks": f"# t\n\n|a|\n{' ' * 200_000}x-|",
        "heading": f"# a{' ' * 200_000}b{'#' * 200_000}c",
        "cells": f"{'|a' * 100_000}\n{'|-' * 100_000}",
        "marks": "*a **b " * 50_000,
        "nested": "\n".join(f"{'  ' * depth}- x" for depth in range(500)),
        "long": "# t\n" + "a b\n" * 100_000,
    }
    run_name = f"markdown-of-{len(names)}"
    with stepscope.open_run(page.folder / "runs" / run_name, sinks=[]) as run:
        for name in names:
            run.text(name, hostile[name], step=0)
    until(lambda: page.find_runs() and run_name in page.keys)
    for name in names:
        shown = page("texts", [run_name], name=name)
        shown.locator(".markdown").wait_for(timeout=10_000)
    shown.get_by_text("the first 300,000 of 400,004 characters").wait_for()
    shown.get_by_role("button", name="Show all as plain text").click()
    assert shown.locator("pre.text").evaluate("(pre) => pre.textContent.length") == 400_004


def test_texts_are_markdown_and_never_html(page):
    shown = page("texts", ["digits-0"])
    shown.get_by_role("heading", name="Step 10", exact=True).wait_for()
    assert shown.locator(".markdown strong").inner_text() == "bold"
    assert SCRIPT in shown.locator(".markdown").inner_text()
    assert shown.locator(".markdown a, .markdown img").count() == 0
    shown.get_by_label("as plain text").check()
    shown.get_by_text("# Step 10").wait_for()


def test_tables_sort_and_curves_are_drawn(page):
    shown = page("texts", ["digits-0"], kind="table")
    shown.get_by_role("button", name="count").click()
    assert shown.locator("tbody td.number").all_inner_texts() == ["1", "3", "30"]
    shown.get_by_role("button", name="count").click()
    assert shown.locator("tbody td.number").all_inner_texts() == ["30", "3", "1"]
    shown.get_by_role("tab", name="Curves").click()
    shown.get_by_text("3 points, 2 of them NaN or infinite").wait_for()
    shown.get_by_text("roc", exact=True).click()
    shown.get_by_role("img", name="roc. digits-0: 3 points, last 1").wait_for()
    shown.get_by_text(re.compile("3 points$")).wait_for()


def test_a_file_is_saved_and_not_shown(page):
    shown = page("texts", ["digits-0"], kind="file")
    link = shown.get_by_role("link", name="notes.html")
    with shown.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "notes.html"
    answer = shown.request.get(f"{page.address}{link.get_attribute('href')}")
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-type"] == "application/octet-stream"


def test_alerts_are_filtered_by_level_and_lead_to_the_charts(page):
    shown = page("texts", ["digits-0"], kind="alert")
    shown.get_by_text("NaN in conv.0.weight").wait_for()
    shown.get_by_label("warning (1)").uncheck()
    shown.get_by_text("1 alert of 2").wait_for()
    assert SCRIPT not in shown.locator(".alerts").inner_text()
    link = shown.get_by_role("link", name="step 9").get_attribute("href")
    assert link.startswith("#/charts?")
    assert "zoom=0,59" in link


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "params", "shows"),
    [
        ("charts", {"search": "loss"}, "step 29"),
        ("datapoints", {}, "Datapoint 0"),
        ("images", {"name": "weights"}, "30 of 30 steps"),
        ("texts", {"kind": "alert"}, "NaN in conv.0.weight"),
        ("texts", {"kind": "table"}, "digits-0 step"),
    ],
)
def test_a_run_that_cannot_be_read_hides_no_other(page, view, params, shows):
    broken = page.folder / "runs" / "broken"
    if not broken.exists():
        with stepscope.open_run(broken, sinks=[]) as run:
            for step in range(500):
                run.scalar("loss", 1.0, step=step)
        (segment,) = (broken / "store").rglob("segment*.db")
        segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
        until(lambda: page.find_runs() and "broken" in page.keys)
    shown = page(view, ["broken", "digits-0"], **params)
    shown.get_by_text(shows).first.wait_for()
    shown.locator(".errors", has_text="broken cannot be read").wait_for()
    assert shown.locator(".errors p").count() == 1
    shown.goto("about:blank")
    page.complaints[:] = [text for text in page.complaints if "410" not in text and "broken" not in text]


@pytest.mark.slow
def test_a_search_keeps_the_focus_while_a_training_writes(page):
    with stepscope.open_run(page.folder / "runs/typed", sinks=[]) as run:
        run.alert("first", "one", step=0)
        run.flush_store()
        until(lambda: page.find_runs() and "typed" in page.keys)
        shown = page("texts", ["typed"], kind="alert")
        shown.get_by_text("1 alert of 1").wait_for()
        shown.get_by_label("search alerts").focus()
        shown.keyboard.type("on")
        run.alert("second", "only two", step=1)
        run.flush_store()
        shown.get_by_text("2 alerts of 2").wait_for()
        shown.keyboard.type("ly")
        shown.get_by_text("1 alert of 2").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "params"),
    [("datapoints", {"idx": 2}), ("images", {"name": "weights"}), ("texts", {}), ("texts", {"kind": "alert"})],
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, view, params, scheme):
    page.page.emulate_media(color_scheme=scheme)
    shown = page(view, ["digits-0"], **params)
    shown.locator(".row, .alerts li").first.wait_for()
    shown.wait_for_load_state("networkidle")
    assert serious_findings(shown) == []
