"""The viewers side by side: how each is started on the same run, and what shows that a chart is drawn."""

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRAWN_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class Side:
    """One viewer.

    Attributes:
        name: Its name.
        sink: What the run is synced to first; none for our own page, which reads the run.
        command: The server's, of the run's folder and a port.
        page: The part of the address behind the port, of the run's folder.
        first: Waits until a chart is drawn.
        switch: Asks for the chart of a name, and waits until that is drawn.
        known: The names that a server has read so far, of its address; a page that opens before shows no others.
            None for a server that reads what it is asked for.
    """

    name: str
    sink: str | None
    command: Callable[[Path, int], Sequence[str]]
    page: Callable[[Path], str]
    first: Callable[[Any], None]
    switch: Callable[[Any, str], None]
    known: Callable[[str], set[str]] | None = None


def _wait_for(page: Any, css: str) -> None:
    """Waits for an element that is seen. It looks at each frame: a locator looks at last only twice a second."""
    page.wait_for_function("css => document.querySelector(css)?.checkVisibility()", arg=css, timeout=DRAWN_TIMEOUT_MS)


def _ours_first(page: Any) -> None:
    _wait_for(page, ".board .card:has(canvas) .legend b")


def _ours_switch(page: Any, name: str) -> None:
    page.locator(".toolbar input[type=search]").fill(name)
    _wait_for(page, f'.board .card[data-name="{name}"]:has(canvas) .legend b')


_TABLE_VALUE = "scalar-card tb-data-table-content-cell"


def _tensorboard_first(page: Any) -> None:
    # The table below a chart has the values at its last step once it is drawn.
    _wait_for(page, _TABLE_VALUE)


def _tensorboard_known(url: str) -> set[str]:
    with urllib.request.urlopen(f"{url}/data/plugin/scalars/tags", timeout=60) as answer:
        return {tag for tags in json.load(answer).values() for tag in tags}


def _tensorboard_switch(page: Any, name: str) -> None:
    tags = page.get_by_role("combobox", name="Filter tags (regex)")
    tags.fill(f"^{re.escape(name)}$")
    tags.press("Escape")
    _wait_for(page, f'scalar-card:has([title="{name}"]) tb-data-table-content-cell')


def _mlflow_page(run: Path) -> str:
    import mlflow

    client = mlflow.MlflowClient(_database(run))
    experiment = next(found for found in client.search_experiments() if found.name != "Default")
    (stored,) = client.search_runs([experiment.experiment_id])
    place = f"experiments/{experiment.experiment_id}/runs/{stored.info.run_id}"
    return f"#/{place}/model-metrics?workflowType=machine_learning"


def _mlflow_first(page: Any) -> None:
    _wait_for(page, ".js-plotly-plot path.js-line")


def _mlflow_switch(page: Any, name: str) -> None:
    page.get_by_placeholder(re.compile("search metric", re.IGNORECASE)).first.fill(re.escape(name))
    title = page.get_by_text(name.rsplit("/", 1)[-1], exact=True).first
    title.wait_for(timeout=DRAWN_TIMEOUT_MS)
    _mlflow_first(page)


def _database(run: Path) -> str:
    return f"sqlite:///{run.parent / 'mlflow.db'}"


SIDES = (
    Side(
        "stepscope",
        None,
        lambda run, port: [sys.executable, "-m", "stepscope", "view", str(run), "--no-browser", "--port", str(port)],
        lambda run: "#/charts",
        _ours_first,
        _ours_switch,
    ),
    Side(
        "tensorboard",
        "tensorboard",
        lambda run, port: [
            sys.executable, "-m", "tensorboard.main", "--logdir", str(run), "--host", "127.0.0.1", "--port", str(port),
        ],
        lambda run: "#timeseries",
        _tensorboard_first,
        _tensorboard_switch,
        _tensorboard_known,
    ),
    Side(
        "mlflow",
        "mlflow",
        lambda run, port: [
            sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", _database(run), "--host", "127.0.0.1",
            "--port", str(port), "--workers", "1",
        ],
        _mlflow_page,
        _mlflow_first,
        _mlflow_switch,
    ),
)  # fmt: skip
