"""An exported page, opened as people open it: by a double click, beside its data, and among MLflow's artifacts."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from browser import screenshot
from mlflow_server import LEAN_SERVER
from playwright.sync_api import expect
from readback_mlflow import artifact_paths
from readback_wandb import history, run_folders
from servers import free_port, serving
from viewer_pages import NEEDS_THE_PAGE

import stepscope
from stepscope.viewer.export import export_page

pytestmark = NEEDS_THE_PAGE
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"><!--"


def record(folder, number=0, **options):
    config = {"lr": 0.1 / (number + 1), HOSTILE: HOSTILE}
    with stepscope.open_run(folder, config=config, name=f"run {number} {HOSTILE}", **options) as run:
        for step in range(120):
            run.scalar("loss", math.nan if step == 50 else 1 / (step + 1 + number), step=step)
            run.scalar("total_norm/gradients", 1.0 + number, step=step)
        run.scalar(HOSTILE, 1.0, step=0)
        run.text(HOSTILE, HOSTILE, step=0)
        run.alert("nan", HOSTILE, step=50, level="error")
        for step in range(20):
            noise = np.random.default_rng(step).integers(0, 256, (128, 128, 3), np.uint8)
            run.image("noise", noise, step=step, layout="HWC")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number in range(2):
        record(folder / f"exp{number}", number, sinks=[])
    return folder


def answers_of(page):
    return json.loads(page.locator("#stepscope-answers").text_content())


def go(frame, view):
    frame.get_by_role("navigation", name="views").get_by_role("link", name=view, exact=True).click()


def test_a_double_click_opens_every_view_and_hostile_names_are_texts(runs, page, tmp_path):
    made = export_page(runs, tmp_path / "out")
    assert made.page_bytes < 10_000_000
    assert (made.data_bytes, made.left_out) == (0, {})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["index.html"]
    page.goto(made.page.as_uri())
    go(page, "Charts")
    expect(page.locator('.card[data-name="loss"] canvas')).to_have_count(1)
    go(page, "Compare")
    expect(page.get_by_role("link", name="run 1")).to_be_visible()
    go(page, "Run")
    expect(page.get_by_text("Environment")).to_be_visible()
    screenshot(page, "export_run", tmp_path)
    go(page, "Texts")
    go(page, "Images")
    expect(page.locator("main img").first).to_be_visible()
    assert page.title() != "broken"
    page.keyboard.press("?")
    expect(page.locator("dialog.keys pre")).to_contain_text("Permission is hereby granted")
    page.keyboard.press("Escape")
    expect(page.locator(".export-note")).to_contain_text("Nothing was left out")
    # The address is the state here too.
    assert page.url.split("#")[1].startswith("/images")


@pytest.mark.slow
def test_it_opens_with_the_runs_that_were_named_and_of_a_folder_with_the_newest(runs, page, tmp_path):
    made = export_page([runs / "exp0", runs / "exp1"], tmp_path / "both")
    page.goto(made.page.as_uri())
    expect(page).to_have_title(re.compile("Verdict · run 0"))
    for name in ("run 0", "run 1"):
        expect(page.locator("main").get_by_role("heading", name=re.compile(name)).first).to_be_visible()
    go(page, "Charts")
    expect(page.locator(".card[data-name=loss] .value")).to_have_count(2)
    made = export_page(runs, tmp_path / "newest")
    page.goto(made.page.as_uri())
    expect(page).to_have_title(re.compile("Verdict · run 1"))
    go(page, "Layers")
    expect(page).to_have_title(re.compile("Layers · run 1"))


@pytest.mark.slow
def test_a_header_that_needs_two_rows_is_no_error(runs, page, tmp_path):
    made = export_page(runs, tmp_path / "out")
    page.set_viewport_size({"width": 900, "height": 900})
    page.goto(made.page.as_uri())
    expect(page.get_by_role("button", name=re.compile("of 2 runs"))).to_be_visible()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_two_runs_are_compared_without_a_server(runs, page, tmp_path):
    made = export_page(runs, tmp_path / "out")
    page.goto(made.page.as_uri())
    page.get_by_role("button", name=re.compile("of 2 runs")).click()
    page.get_by_role("button", name="All found").click()
    page.keyboard.press("Escape")
    go(page, "Compare")
    expect(page.locator(".runs-table tbody tr")).to_have_count(2)
    expect(page.locator("svg.parallel polyline")).to_have_count(2)
    expect(page.get_by_role("region", name="series")).to_contain_text("loss")
    page.get_by_role("searchbox", name="filter runs").fill("lr > 0.07")
    expect(page.locator(".runs-table tbody tr")).to_have_count(1)
    page.get_by_role("button", name="lr", exact=True).click()
    expect(page.locator('th[aria-sort="ascending"]')).to_have_text(re.compile("lr"))
    screenshot(page, "export_compare", tmp_path)


@pytest.mark.slow
def test_a_run_without_the_images_of_another_lacks_nothing(page, tmp_path):
    for name in ("pictured", "plain"):
        with stepscope.open_run(tmp_path / name, sinks=[]) as run:
            run.scalar("loss", 1.0, step=0)
            if name == "pictured":
                run.image("noise", np.zeros((4, 4), np.uint8), step=0, layout="HW")
                run.text("note", "seen", step=0)
                run.histogram("weights", np.arange(9.0), step=0)
    made = export_page([tmp_path / "pictured", tmp_path / "plain"], tmp_path / "out")
    page.goto(made.page.as_uri())
    for view, shows in (("Images", "no image up to step 0"), ("Texts", "seen"), ("Histograms", "9 elements")):
        go(page, view)
        expect(page.locator("main")).to_contain_text(shows)
        expect(page.locator(".errors")).to_be_empty()


@pytest.mark.slow
def test_all_ranks_are_over_each_other_without_a_server(page, tmp_path):
    for rank in range(3):
        with stepscope.open_run(tmp_path / "exp1", sinks=[], rank=rank, resume=rank > 0) as run:
            for step in range(20):
                run.scalar("loss", rank + step, step=step)
            run.scalar(f"only/{rank}", 1.0, step=0)
    page.goto(export_page(tmp_path / "exp1", tmp_path / "out").page.as_uri())
    go(page, "Charts")
    page.get_by_label("rank").select_option("all ranks")
    values = page.locator(".card[data-name=loss] .value")
    expect(values).to_have_count(3)
    for rank in range(3):
        expect(values.nth(rank)).to_contain_text(f"rank {rank} of exp1{rank + 19}")
        expect(page.locator(f'.card[data-name="only/{rank}"] .value')).to_have_count(1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="save as CSV: loss").click()
    assert len(saved.value.path().read_text(encoding="utf-8").splitlines()) == 1 + 3 * 20


@pytest.mark.slow
def test_what_finds_no_room_lies_beside_the_page_and_is_loaded_when_it_is_asked_for(runs, page, tmp_path):
    made = export_page(runs, tmp_path / "out", page_bytes=1_000_000)
    assert made.page_bytes < 1_000_000
    assert made.data_bytes > 0
    page.goto(made.page.as_uri())
    go(page, "Images")
    slider = page.locator("main input[type=range]").first
    for value in ("0", "5", "10"):
        slider.fill(value)
        expect(page.locator("main img").first).to_have_js_property("naturalWidth", 128)
    assert any(answer[1] == "file" for answer in answers_of(page).values())


def test_a_small_page_says_what_it_left_out(runs, page, tmp_path):
    made = export_page(runs, tmp_path / "out", page_bytes=1_000_000, data_bytes=0)
    assert made.page_bytes <= 1_000_000
    assert made.left_out["images"] > 0
    page.goto(made.page.as_uri())
    expect(page.locator(".export-note")).to_contain_text(f"{made.left_out['images']} images")


@pytest.mark.slow
def test_mlflow_opens_the_page_among_a_runs_artifacts(browser, tmp_path):
    import mlflow

    page, complaints = browser
    complaints.clear()
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    record(tmp_path / "exp", sinks=[f"mlflow:{database}"], page=True)
    stepscope.sync_runs(tmp_path / "exp", to=f"mlflow:{database}")  # on a busy machine closing has not waited for all
    client = mlflow.MlflowClient(database)
    experiment = client.get_experiment_by_name("stepscope")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.tags["stepscope.alert.nan"].endswith(f"\nstepscope view {tmp_path / 'exp'}")
    (path,) = (path for path in artifact_paths(client, run.info.run_id) if path.endswith("index.html"))
    port = free_port()
    command = [
        sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", database, "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    log = tmp_path / "server.log"
    with serving(command, port=port, log=log, path="/health", environment=LEAN_SERVER) as url:
        page.goto(f"{url}/#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}/artifacts")
        for name in Path(path).parts:
            page.locator(f'[data-testid="artifact-tree-node"][artifact-name="{name}"]').first.click()
        frame = page.frame_locator("iframe").first
        go(frame, "Charts")
        expect(frame.locator('.card[data-name="loss"] canvas')).to_have_count(1)
        go(frame, "Run")
        expect(frame.get_by_text("Environment")).to_be_visible()
        screenshot(page, "export_in_mlflow", tmp_path)
        page.goto("about:blank")
    # MLflow's own page asks for what its server does not have.
    assert not [one for one in complaints if "the server responded" not in one]


@pytest.mark.slow
def test_wandb_has_the_page_as_html(tmp_path):
    record(tmp_path / "exp", sinks=["wandb"], page=True)
    [folder] = run_folders({"target": str(tmp_path / "exp")})
    [row] = (row for row in history(folder) if "stepscope/page" in row)
    shown = row["stepscope/page"]
    assert shown["_type"] == "html-file"
    page = (folder / "files" / shown["path"]).read_text()
    assert 'id="stepscope-answers"' in page
    with stepscope.read_run(tmp_path / "exp") as stored:
        [file] = stored.files()
    assert page == file.path.read_text()
