"""Ray Train for real: two workers are watched as two ranks, and their stores are one run; Ray Data reads an export."""

import json
import os
import subprocess
import sys

import pytest
from page_code import ROOT, lines_shown, without_numbers
from s3_server import BUCKET, s3_endpoint

import stepscope

pytest.importorskip("ray", reason="needs Ray: pip install 'stepscope[ray]'")

import ray_training

from stepscope.integrations import frameworks
from stepscope.integrations.ray import current_run, watched

pytestmark = pytest.mark.timeout(1800)  # workers import torch and Ray one after the other
KINDS = ["alone", "watched", "failing", "stopping", "s3"]


def ran(command, folder, variables=None):
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | (variables or {}), capture_output=True, text=True,
        timeout=1700, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the workers wrote, and the runs: one start of Ray for all."""
    folder = tmp_path_factory.mktemp("ray")
    with s3_endpoint(folder) as s3, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPSCOPE_CACHE", str(folder / "cache"))
        for name, value in s3.variables.items():
            patch.setenv(name, value)
        ran([ray_training.__file__, str(folder), json.dumps(KINDS)], folder, {"RESULTS": f"s3://{BUCKET}/results"})
        patch.setenv("STEPSCOPE_CACHE", str(folder / "elsewhere"))  # as on another machine
        with stepscope.read_run(f"s3://{BUCKET}/results/s3/stepscope") as record:
            merged = stepscope.MergedRanks(record).scalars("loss")
            told = {"ranks": list(record.ranks), "status": record.info.status, "steps": len(merged.steps)}
        (folder / "s3.json").write_text(json.dumps(told))
    return folder


def of(folder, kind, rank):
    return json.loads((folder / f"{kind}_{rank}.json").read_text())


@pytest.mark.parametrize("rank", [0, 1])
def test_training_is_bit_identical(folder, rank):
    assert of(folder, "watched", rank) == of(folder, "alone", rank)


def test_both_workers_are_ranks_of_one_run_among_the_results(folder):
    results = json.loads((folder / "told.json").read_text())["watched"]
    with stepscope.read_run(f"{results}/stepscope") as record:
        assert (list(record.ranks), record.info.status, record.info.config["lr"]) == ([0, 1], "finished", 0.01)
        for rank in (0, 1):
            losses = record.scalars("loss", rank)  # watched since the first step of the optimizer
            assert losses.steps.tolist() == list(range(1, ray_training.STEPS))
            assert losses.values.tolist() == pytest.approx(of(folder, "watched", rank)["losses"][1:])
            assert [one.text for one in record.texts("notes", rank)] == [f"by rank {rank}"]
        merged = stepscope.MergedRanks(record).scalars("total_norm/gradients")
        assert (merged.rule, merged.steps.tolist()) == ("norm", list(range(ray_training.STEPS)))
        assert merged.values.tolist() == record.scalars("total_norm/gradients").values.tolist()


def test_what_is_reported_is_recorded_under_the_step_of_the_optimizer(folder):
    results = json.loads((folder / "told.json").read_text())["watched"]
    with stepscope.read_run(f"{results}/stepscope") as record:
        reported = record.scalars("train_loss", 1)
        assert reported.steps.tolist() == [9, 19, 29]
        assert reported.values.tolist() == of(folder, "watched", 1)["losses"][9::10]
        assert record.scalars("validation/loss").steps.tolist() == [9, 19, 29]
        assert {one.text for one in record.texts("phase")} == {"short"}


def test_a_function_that_raises_fails_the_run_and_comes_out_of_fit(folder):
    assert "planted" in json.loads((folder / "told.json").read_text())["failing"]
    with stepscope.read_run(folder / "results" / "failing" / "stepscope") as record:
        assert record.info.status == "failed"
        assert record.scalars("loss", 1).steps.tolist()[-1] == ray_training.BROKEN_AT - 1


def test_all_workers_stop_at_the_step_of_a_finding_of_one(folder):
    assert [len(of(folder, "stopping", rank)["losses"]) for rank in (0, 1)] == [ray_training.BROKEN_AT + 1] * 2
    with stepscope.read_run(folder / "results" / "stopping" / "stepscope") as record:
        assert record.info.status == "finished"


@pytest.mark.parametrize(
    ("given", "message"), [({"train_loop": 3}, "train_loop is int 3"), ({"run": 3}, "run is int 3")]
)
def test_wrong_arguments_are_refused_on_the_driver(given, message):
    with pytest.raises(stepscope.SessionError, match=message):
        watched(**{"train_loop": ray_training.train} | given)


def test_a_wrong_configuration_is_refused_on_the_driver():
    with pytest.raises(stepscope.ConfigError, match="confg"):
        watched(ray_training.train, confg="full")


def test_without_a_watched_function_there_is_no_run():
    with pytest.raises(stepscope.SessionError, match="no watched training function runs here"):
        current_run()


def test_a_version_that_was_not_tested_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "9.0.0")
    monkeypatch.setattr(frameworks, "_warned", set())
    for _ in range(2):
        watched(ray_training.train)
    assert ["9.0.0 is installed" in one.message for one in caplog.records] == [True]


def test_in_an_object_store_the_ranks_of_a_machine_are_one_run(folder):
    told = json.loads((folder / "s3.json").read_text())
    assert told == {"ranks": [0, 1], "status": "finished", "steps": ray_training.STEPS - 1}


@pytest.mark.parametrize("example", ["ray_train.py", "ray_data.py"])
def test_an_example_prints_what_its_page_shows(example, tmp_path):
    printed = ran([str(ROOT / "examples" / example), str(tmp_path / "run")], tmp_path)
    assert lines_shown(example) - {without_numbers(line) for line in printed.splitlines()} == set()
