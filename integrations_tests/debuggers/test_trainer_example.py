"""The example's trainer and evaluator, run as its user runs them, and what they leave behind."""

import importlib.util
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from warm_python import WarmPython

import stepscope
from debuggers.debug_outputs import load_debug_outputs
from debuggers.failed_datapoints import failures
from debuggers.page_comparison import compare_pages
from debuggers.pages import PageReader

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "trainer"
NO_DEBUGGER = """
import runpy

config = runpy.run_path("configs/digits.py")["config"]
del config["debugger"], config["run"]
config["work_dir"] = "plain"
"""
TWO_EPOCHS = """
import runpy

config = runpy.run_path("configs/digits.py")["config"]
config.update(work_dir="two", epochs=2, checkpoint_method="all", batch_size=100)
del config["run"]
"""
NO_DEBUGGER_EVALUATION = """
import runpy

config = runpy.run_path("configs/digits_evaluation.py")["config"]
del config["debugger"], config["run"]
config["work_dir"] = "plain_evaluation"
"""


@dataclass(frozen=True)
class Trained:
    """A copy of the example after ``main.py`` and ``eval.py`` ran in it, and what ``eval.py`` printed."""

    folder: Path
    printed: str
    python: WarmPython

    def start(self, program, config):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STEPSCOPE_")}
        return self.python.run([program, "--config-filepath", config], folder=self.folder, environment=environment)

    def call(self, program, config):
        done = self.start(program, config)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory, warm_python):
    folder = tmp_path_factory.mktemp("example") / "trainer"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("work_dir", "runs", "__pycache__"))
    example = Trained(folder, "", warm_python)
    example.call("main.py", "configs/digits.py")
    return replace(example, printed=example.call("eval.py", "configs/digits_evaluation.py"))


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def scores_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def misclassified(folder):
    """The test digits that the checkpoint gets wrong, with their losses, computed without any page."""
    spec = importlib.util.spec_from_file_location("digit_task", folder / "digit_task.py")
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    dataset, model = task.DigitDataset("test"), task.DigitNetwork().eval()
    states = torch.load(folder / "work_dir/digits/epoch_9/checkpoint.pt", weights_only=True)
    model.load_state_dict(states["model"])
    rows = list(dataset.rows)
    with torch.no_grad():
        outputs = model(dataset.images[rows])
    losses = torch.nn.functional.cross_entropy(outputs, dataset.labels[rows], reduction="none")
    wrong = outputs.argmax(1) != dataset.labels[rows]
    return {row: float(loss) for row, loss, is_wrong in zip(rows, losses, wrong, strict=True) if is_wrong}


def test_a_training_leaves_checkpoints_scores_and_pages_of_every_fifth_epoch(trained):
    folder = trained.folder / "work_dir" / "digits"
    pages = {"debugger/page_0.pkl", "debugger/page_1.pkl", "debugger/index.json"}
    epoch = {"checkpoint.pt", "validation_scores.json", *pages}
    assert files_of(folder) == {f"epoch_{number}/{name}" for number in (4, 9) for name in epoch}
    for number in (4, 9):
        assert scores_of(folder / f"epoch_{number}" / "validation_scores.json")["correct"] > 0.9


def test_an_evaluation_leaves_scores_and_pages(trained):
    folder = trained.folder / "work_dir" / "digits_evaluation"
    pages = {f"debugger/page_{number}.pkl" for number in range(3)}
    assert files_of(folder) == {"evaluation_scores.json", "debugger/index.json", *pages}
    scores = scores_of(folder / "evaluation_scores.json")
    assert scores["correct"] == pytest.approx(1 - len(misclassified(trained.folder)) / 297)
    assert scores["correct"] > 0.9


def test_the_pages_of_an_epoch_hold_every_validated_datapoint(trained):
    folder = trained.folder / "work_dir" / "digits" / "epoch_4"
    outputs = load_debug_outputs(folder)
    assert list(outputs) == list(range(1200, 1500))
    for idx in (1200, 1350, 1499):
        entry = outputs[idx]
        assert list(entry) == ["backbone_features", "head_stats", "confidence", "datapoint"]
        assert entry["backbone_features"]["feature_map"].shape == (16, 8, 8)
        kept = entry["datapoint"]
        assert sorted(kept) == ["inputs", "labels", "outputs", "scores"]
        probabilities = np.exp(kept["outputs"]) / np.exp(kept["outputs"]).sum()
        assert entry["confidence"]["confidence"] == pytest.approx(probabilities.max(), rel=1e-5)
        assert kept["scores"]["correct"] == (kept["outputs"].argmax() == kept["labels"])
    labels = [outputs[idx]["datapoint"]["scores"]["correct"] for idx in outputs]
    assert np.mean(labels) == pytest.approx(scores_of(folder / "validation_scores.json")["correct"])


def test_plain_joblib_reads_the_same_pages(trained):
    folder = trained.folder / "work_dir" / "digits_evaluation"
    outputs = load_debug_outputs(folder)
    by_joblib = {}
    for path in sorted((folder / "debugger").glob("page_*.pkl")):
        by_joblib |= joblib.load(path)
    assert list(by_joblib) == list(outputs) == list(range(1500, 1797))
    for idx in outputs:
        for get in (
            lambda entry: entry["backbone_features"]["feature_map"],
            lambda entry: entry["datapoint"]["inputs"],
        ):
            np.testing.assert_array_equal(get(outputs[idx]), get(by_joblib[idx]))


def test_the_failures_are_the_misclassified_digits_the_worst_first(trained):
    expected = misclassified(trained.folder)
    found = failures(trained.folder / "work_dir" / "digits_evaluation")
    assert {failure.datapoint for failure in found} == set(expected)
    assert (found.wrong, found.right, found.unjudged) == (len(expected), 297 - len(expected), 0)
    for failure in found:
        assert failure.loss == pytest.approx(expected[failure.datapoint], rel=1e-3)
        assert failure.label == failure.outputs["datapoint"]["labels"] != failure.prediction
    losses = [failure.loss for failure in found]
    assert losses == sorted(losses, reverse=True)
    assert f"{len(expected)} of 297 were wrong" in trained.printed


def test_the_run_holds_the_scores_and_the_pages_of_the_last_epoch(trained):
    with stepscope.read_run(trained.folder / "runs" / "digits") as record:
        assert len(record.scalars("train/loss")) == 10 * 19
        accuracies = record.scalars("validation/correct").values
        assert len(accuracies) == 10
        assert len(record.pages()) == 4
        assert record.alerts() == []
        assert failures(record).right == round(accuracies[-1] * 300)
        assert record.info.config["checkpoint_method"] == 5


def test_two_epochs_are_compared(trained):
    folder = trained.folder / "work_dir" / "digits"
    found = compare_pages(folder / "epoch_4", folder / "epoch_9")
    assert (found.datapoints, found.only_in_a, found.only_in_b) == (300, (), ())
    places = {difference.place for difference in found.differences}
    assert {"backbone_features/feature_map", "confidence/confidence", "datapoint/outputs"} <= places
    assert not places & {"datapoint/inputs", "datapoint/labels", "backbone_features/layer_name"}
    a, b = PageReader(folder / "epoch_4" / "debugger"), PageReader(folder / "epoch_9" / "debugger")
    for difference in sorted(found.differences, key=lambda difference: difference.datapoint):
        if difference.place == "datapoint/outputs":
            x, y = (side[difference.datapoint]["datapoint"]["outputs"].astype(np.float64) for side in (a, b))
            assert difference.elements.max_abs == np.abs(y - x).max()
            assert difference.elements.relative == pytest.approx(np.linalg.norm(y - x) / np.linalg.norm(x))
    assert "300 datapoints in both" in found.summary()


def test_without_a_debugger_and_a_run_the_same_network_is_trained(trained):
    (trained.folder / "configs" / "plain.py").write_text(NO_DEBUGGER, encoding="utf-8")
    trained.call("main.py", "configs/plain.py")
    assert files_of(trained.folder / "plain") == {
        f"epoch_{number}/{name}" for number in (4, 9) for name in ("checkpoint.pt", "validation_scores.json")
    }
    plain, debugged = (
        torch.load(trained.folder / work_dir / "epoch_9" / "checkpoint.pt", weights_only=True)
        for work_dir in ("plain", "work_dir/digits")
    )
    for name, values in debugged["model"].items():
        assert torch.equal(values, plain["model"][name]), name
    (trained.folder / "configs" / "plain_evaluation.py").write_text(NO_DEBUGGER_EVALUATION, encoding="utf-8")
    trained.call("eval.py", "configs/plain_evaluation.py")
    assert files_of(trained.folder / "plain_evaluation") == {"evaluation_scores.json"}


def test_every_epoch_of_a_training_in_other_batches(trained):
    (trained.folder / "configs" / "two.py").write_text(TWO_EPOCHS, encoding="utf-8")
    trained.call("main.py", "configs/two.py")
    for number in (0, 1):
        assert list(load_debug_outputs(trained.folder / "two" / f"epoch_{number}")) == list(range(1200, 1500))


def test_a_second_training_goes_on_in_the_same_run(trained):
    trained.call("eval.py", "configs/digits_evaluation.py")
    with stepscope.read_run(trained.folder / "runs" / "digits_evaluation") as record:
        assert len(record.scalars("evaluation/correct")) == 1
        assert record.info.status == "finished"


def test_a_file_without_a_config_is_an_error(trained):
    (trained.folder / "configs" / "none.py").write_text("settings = {}", encoding="utf-8")
    done = trained.start("main.py", "configs/none.py")
    assert done.returncode != 0
    assert "expected a Python file that defines config" in done.stderr
