"""Reads everything that a run of ours shows in MLflow back, through MlflowClient alone."""

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run
from tracker_adapters.sinks.mlflow.metrics import LARGEST, NAME_TAG_PREFIX
from tracker_adapters.sinks.mlflow.names import digest_of_cut_key, file_stem, name_of_key
from tracker_adapters.sinks.mlflow.runs import ATTEMPT_TAG, RUN_ID_TAG
from tracker_adapters.testing.contract import Shown, pixel_digest

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_back(options: dict[str, Any]) -> list[Shown]:
    """Returns everything shown for the run that ``options`` lead to, its child runs included."""
    client = MlflowClient(tracking_uri=options["target"])
    runs = our_runs(options)
    prefix = f"stepscope/{file_stem(runs[0].data.tags[RUN_ID_TAG])}/" if "run_id" in options else ""
    return [seen for run in runs for seen in _of_run(client, run, prefix)]


def our_runs(options: dict[str, Any]) -> list[Run]:
    """Returns the MLflow runs that carry our id, the oldest first."""
    client = MlflowClient(tracking_uri=options["target"])
    if "run_id" in options:
        return [client.get_run(options["run_id"])]
    if (experiment_id := options.get("experiment_id")) is None:
        experiment_id = client.get_experiment_by_name(options["experiment"]).experiment_id
    runs = client.search_runs([experiment_id], f'tags."{RUN_ID_TAG}" LIKE "%"')
    return sorted(runs, key=lambda run: int(run.data.tags[ATTEMPT_TAG]))


def artifact_paths(client: MlflowClient, run_id: str, folder: str | None = None) -> list[str]:
    """Returns the paths of all files below a folder of a run's artifacts."""
    found = []
    for entry in client.list_artifacts(run_id, folder):
        found += artifact_paths(client, run_id, entry.path) if entry.is_dir else [entry.path]
    return found


def read_index(client: MlflowClient, run_id: str, prefix: str = "") -> list[dict[str, Any]]:
    """Returns the lines of a run's index, each sequence number once, in order; a killed run can end in half a line."""
    lines = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in artifact_paths(client, run_id, f"{prefix}index"):
            if path.endswith(".jsonl"):
                content = Path(client.download_artifacts(run_id, path, folder)).read_text()
                whole = content[: content.rfind("\n") + 1]
                lines |= {line["seq"]: line for line in map(json.loads, whole.splitlines())}
    return [lines[seq] for seq in sorted(lines)]


def _of_run(client: MlflowClient, run: Run, prefix: str) -> Iterator[Shown]:
    run_id, tags = run.info.run_id, run.data.tags
    for key in run.data.metrics:
        digest = digest_of_cut_key(key)
        name = tags[NAME_TAG_PREFIX + digest] if digest else name_of_key(key)
        for point in client.get_metric_history(run_id, key):
            value = math.copysign(math.inf, point.value) if abs(point.value) == LARGEST else point.value
            yield Shown("scalar", name, point.step, value)
    lines = read_index(client, run_id, prefix)
    with tempfile.TemporaryDirectory() as folder:
        # Whole folders: what MLflow looks up before each download costs more than copying many files.
        for top in sorted({line["path"].partition("/")[0] for line in lines if line["kind"] != "histogram"}):
            client.download_artifacts(run_id, top, folder)
        for line in lines:
            if line["kind"] == "histogram":
                value: Any = _histogram(line)
            else:
                value = _value(line["kind"], Path(folder, line["path"]).read_bytes())
            yield Shown(line["kind"], line["name"], line["step"], value)


def _histogram(line: dict[str, Any]) -> tuple[int, float, float]:
    finite = line["count"] - line["nan"] - line["pos_inf"] - line["neg_inf"]
    return finite, float(line["min"]), float(line["max"])


def _value(kind: str, content: bytes) -> Any:
    match kind:
        case "image":
            return pixel_digest(content)
        case "text":
            return content.decode()
        case "alert":
            head, _, message = content.decode().partition("\n\n")
            return head.split(" ", 1)[0], message
        case "table":
            table = json.loads(content)
            rows = tuple(tuple(_WORDS.get(cell, cell) for cell in row) for row in table["data"])
            return tuple(table["columns"]), rows
        case "curve":
            return tuple(zip(*json.loads(content)["data"], strict=True))
    return hashlib.sha256(content).hexdigest()
