"""What a person sees of the demo's run in TensorBoard and in MLflow."""

import re
import shlex
import sys

import pytest
from browser import browser_page, chromium, screenshot
from mlflow_server import LEAN_SERVER
from servers import free_port, serving
from tracker_adapters.sinks.tensorboard import TensorBoardSink

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium here: apt-get install chromium"),
]


def test_tensorboard_shows_scalars_histograms_images_and_text(demo, tmp_path):
    port = free_port()
    # The command that the user is told, with the address added.
    tensorboard, *arguments = shlex.split(TensorBoardSink.look({"target": str(demo.folder)}))
    assert tensorboard == "tensorboard"
    command = [sys.executable, "-m", "tensorboard.main", *arguments, "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, port=port, log=tmp_path / "server.log") as url, browser_page() as page:
        page.goto(TensorBoardSink.first_page.replace("http://localhost:6006", url))
        # Before any group of charts, and under the run's own name.
        first = page.locator("card-view").first
        first.get_by_text("loss", exact=True).wait_for()
        first.get_by_text(demo.folder.name, exact=True).first.wait_for()
        tags = page.get_by_role("combobox", name="Filter tags (regex)")
        tags.fill("^loss$|total_norm/gradients|validation/(loss|accuracy)$")
        tags.press("Escape")
        page.get_by_text("4 cards", exact=True).first.wait_for()
        # The value at the last step stands in the table below each chart once it is drawn.
        page.get_by_text(re.compile(r"^13[78]$")).first.wait_for()
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(1000)  # the curves fade in, which only the picture needs
        screenshot(page, "tensorboard_scalars", tmp_path)
        page.goto(f"{url}/#histograms")
        page.get_by_text("gradients/conv1.weight").first.wait_for()
        page.locator("vz-histogram-timeseries path.outline").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        screenshot(page, "tensorboard_histograms", tmp_path)
        page.goto(f"{url}/#images")
        page.get_by_text("validation/wrong_digits").first.wait_for()
        page.locator("tf-image-loader img").nth(2).wait_for()
        page.wait_for_load_state("networkidle")
        screenshot(page, "tensorboard_images", tmp_path)
        page.goto(f"{url}/#text")
        page.get_by_text("checkpoint (alert)").first.wait_for()
        page.get_by_text("accuracy 0.9").first.wait_for()
        screenshot(page, "tensorboard_text", tmp_path)


def test_mlflow_shows_metrics_and_artifacts(demo, tmp_path):
    port = free_port()
    database = f"sqlite:///{demo.folder.parent / 'mlflow.db'}"
    command = [
        sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", database, "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    with (
        serving(command, port=port, log=tmp_path / "server.log", path="/health", environment=LEAN_SERVER) as url,
        browser_page() as page,
    ):
        import mlflow
        from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

        client = mlflow.MlflowClient(database)
        experiment = next(e for e in client.search_experiments() if e.name != "Default")
        (run,) = client.search_runs([experiment.experiment_id])
        run_page = f"{url}/#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}"
        training = "?workflowType=machine_learning"  # MLflow 3 begins with its pages for language models

        page.goto(run_page + training)
        page.get_by_text("validation/loss").first.wait_for()
        page.get_by_text("checkpoint_method").first.wait_for()
        screenshot(page, "mlflow_run", tmp_path)

        page.goto(f"{run_page}/model-metrics{training}")
        page.locator(".js-plotly-plot path.js-line").nth(2).wait_for(state="attached")
        screenshot(page, "mlflow_metrics", tmp_path)

        def open_artifact(*path, shows):
            """Opens it anew until it is shown: MLflow's tree loses a click on a node that it draws again meanwhile."""
            for attempt in range(4):
                page.goto(f"{run_page}/artifacts{training}")
                page.reload()
                for name in path:
                    page.locator(f'[data-testid="artifact-tree-node"][artifact-name="{name}"]').first.click()
                try:
                    shows.first.wait_for(timeout=20_000)
                except PlaywrightTimeoutError:
                    if attempt == 3:
                        raise
                else:
                    return

        picture = page.locator('[class*="image"] img, img[src*="blob:"]')
        open_artifact("histograms", "gradients~fc1.weight.png", shows=picture)
        screenshot(page, "mlflow_heat_map", tmp_path)
        summary = next(
            file.path for file in client.list_artifacts(run.info.run_id, "pages/validation~page_0") if not file.is_dir
        )
        summary_page = page.frame_locator("iframe").first
        open_artifact(*summary.split("/"), shows=summary_page.get_by_text("feature_map float32 (16, 8, 8) from "))
        maps = summary_page.locator("img").first
        assert maps.evaluate("picture => picture.naturalWidth") > 20
        screenshot(page, "mlflow_page", tmp_path)
        alert = page.get_by_text(re.compile(r"step_0*138_\d+\.txt"))
        open_artifact("alerts", "checkpoint", shows=alert)
        alert.first.click()
        page.get_by_text("epoch 5: accuracy 0.9").first.wait_for()
        screenshot(page, "mlflow_alert", tmp_path)
