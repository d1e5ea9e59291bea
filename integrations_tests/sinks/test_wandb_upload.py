"""What ``wandb sync`` uploads of the sink's files, as a server receives it: the same as of the SDK's own files."""

import json
from pathlib import Path
from typing import Any

import pytest
from readback_wandb import history, run_folders
from tracker_adapters.artifacts import RunInfo, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import ODD_VALUES, one_of_each
from wandb_runs import batch, carried, opened
from wandb_server import UploadedRun

_DRAWN = {"_runtime", "_timestamp", "runtime"}


@pytest.fixture
def options(tmp_path):
    return WandbSink.resolve({"project": "p", "tags": ["a", "b"], "group": "g"}, tmp_path / "run")


def upload(server, options):
    return server.sync(Path(options["target"], "wandb"))


def plain(value):
    """Leaves out the times, and the ids that the SDK draws; NaN becomes a text, so that it equals itself."""
    if isinstance(value, dict):
        ids = {"artifact_path", "_latest_artifact_path", "path"}
        return {key: plain(part) for key, part in value.items() if key not in _DRAWN | ids}
    return str(value) if isinstance(value, float) else value


def test_every_kind_is_uploaded_as_the_sdk_has_it(server_of_wandb, options, tmp_path):
    """Offline and uploaded, against online, where the SDK makes everything itself."""
    artifacts = [
        *(Scalar(name="loss", value=value, step=step) for step, value in enumerate(ODD_VALUES)),
        *one_of_each(tmp_path, name="layer1/weight", step=7),
    ]
    runs: list[UploadedRun] = []
    tracked: list[list[dict[str, Any]]] = []
    for wanted in (options, options | {"target": str(tmp_path / "sdk"), "mode": "online"}):
        carried(wanted, Batch.of(artifacts))
        if wanted is options:
            assert "Finished syncing" in upload(server_of_wandb, wanted)
        runs.append(server_of_wandb.runs.pop("contract"))
        tracked.append(sorted(server_of_wandb.artifacts, key=lambda one: str(one["artifactCollectionName"])))
        server_of_wandb.artifacts = []
    ours, sdks = runs
    assert [plain(row) for row in ours.history] == [plain(row) for row in sdks.history]
    assert plain(ours.summary) == plain(sdks.summary)
    for key in ("displayName", "project", "groupName", "tags"):
        assert ours.about[key] == sdks.about[key]
    assert _settings_of(ours) == _settings_of(sdks)
    assert (ours.exit_code, sdks.exit_code) == (0, 0)
    left_out = {"wandb-summary.json", "config.yaml"}
    ours_files, sdks_files = ({n: f for n, f in run.files.items() if n not in left_out} for run in runs)
    assert {Path(name).parent for name in ours_files} == {Path(name).parent for name in sdks_files}
    assert sorted(ours_files.values()) == sorted(sdks_files.values())
    assert [_said(one) for one in tracked[0]] == [_said(one) for one in tracked[1]]


def _settings_of(run):
    config = json.loads(run.about["config"])
    return {key: value for key, value in config.items() if key != "_wandb"} | {
        "metrics": config["_wandb"]["value"]["m"]
    }


def _said(artifact):
    drawn = ("clientID", "sequenceClientID", "historyStep", "entityName")
    said = {key: value for key, value in artifact.items() if key not in drawn}
    return said | {"metadata": json.loads(artifact["metadata"] or "null")}


@pytest.mark.slow
def test_what_comes_after_an_upload_is_appended_to_the_run(server_of_wandb, options):
    token = None
    for step in range(3):
        token = carried(options, batch(step), token)
        printed = upload(server_of_wandb, options)
        assert "Syncing 1 run(s)" in printed, printed
        assert [row["step"] for row in server_of_wandb.runs["contract"].history] == list(range(step + 1))
    assert list(server_of_wandb.runs) == ["contract"]
    assert server_of_wandb.runs["contract"].exit_code == 0


@pytest.mark.slow
def test_an_attempt_that_goes_back_leaves_the_uploaded_run_as_it_ended(server_of_wandb, options):
    token = None
    for attempt, steps in enumerate((range(5), range(2, 7), range(7, 9)), start=1):
        shown = Batch.of([Scalar(name="loss", value=0.5, step=step) for step in steps], attempt=attempt)
        token = carried(options, shown, token)
        upload(server_of_wandb, options)
    found = {run_id: [row["step"] for row in run.history] for run_id, run in server_of_wandb.runs.items()}
    assert found == {"contract": [0, 1, 2, 3, 4], "contract-a2": [2, 3, 4, 5, 6, 7, 8]}
    assert {run.exit_code for run in server_of_wandb.runs.values()} == {0}


@pytest.mark.slow
def test_folders_of_one_run_are_uploaded_in_their_order_at_once(server_of_wandb, options):
    token = None
    for step in range(3):
        token = carried(options, batch(step), token, status=None)
        for folder in run_folders(options):
            Path(folder, "run-contract.wandb.synced").touch()
    for folder in run_folders(options):
        Path(folder, "run-contract.wandb.synced").unlink()
    printed = upload(server_of_wandb, options)
    assert "Syncing 3 run(s)" in printed, printed
    assert [row["step"] for row in server_of_wandb.runs["contract"].history] == [0, 1, 2]


@pytest.mark.slow
def test_a_file_without_an_end_is_uploaded_up_to_its_last_row(server_of_wandb, options):
    sink = opened(options)
    sink.write(Batch.of([Scalar(name="loss", value=float(step), step=step) for step in range(5000)]))
    sink.flush()
    printed = upload(server_of_wandb, options)
    sink.close()
    assert "Finished syncing" in printed, printed
    assert [row["step"] for row in server_of_wandb.runs["contract"].history] == list(range(5000))
    assert server_of_wandb.runs["contract"].exit_code == 1


@pytest.mark.slow
def test_a_superseded_folder_is_not_uploaded(server_of_wandb, options):
    for _ in range(2):
        carried(options, batch(0))
    printed = upload(server_of_wandb, options)
    assert "Skipped 1 synced run(s)" in printed, printed
    assert list(server_of_wandb.runs) == ["contract.2"]


@pytest.mark.slow
def test_a_name_of_any_length_and_script_arrives(server_of_wandb, options):
    names = ["grad/fc1", "ж" * 200, "a" * 900, "a.b", "100 %", "loss (scalar)"]
    sink = WandbSink(**options)
    sink.open(RunInfo(id="names", name="n" * 200, config={"ключ": {"x": [1, None]}}), None)
    sink.write(Batch.of([Scalar(name=name, value=0.5, step=0) for name in names]))
    sink.flush()
    sink.finish("finished")
    sink.close()
    upload(server_of_wandb, options)
    (uploaded,) = server_of_wandb.runs["names"].history
    (written,) = (row for folder in run_folders(options) for row in history(folder))
    assert uploaded == written
    assert len(uploaded) == len(names) + 4
