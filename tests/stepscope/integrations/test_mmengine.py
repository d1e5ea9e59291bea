"""The hook and the backend in real Runners of mmengine."""

import logging

import pytest
import torch

import stepscope

pytest.importorskip("mmengine", reason="needs mmengine: pip install 'stepscope[mmengine]'")
pytest.importorskip("cv2", reason="needs OpenCV, as mmengine does", exc_type=ImportError)

from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner

from stepscope.integrations import frameworks
from stepscope.integrations.mmengine import StepscopeVisBackend

pytestmark = pytest.mark.framework


class Network(BaseModel):
    def __init__(self, fault=None, nan_at=None):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.fault, self.nan_at, self.calls = fault, nan_at, 0

    def forward(self, inputs, targets, mode="tensor"):
        outputs = self.net(inputs)
        if mode != "loss":
            return outputs, targets
        self.calls += 1
        if self.fault is not None and self.calls == 3:
            raise self.fault
        return {"loss": (outputs - targets).square().mean() * (float("nan") if self.calls == self.nan_at else 1)}


class Error(BaseMetric):
    default_prefix = "mean"

    def process(self, data_batch, data_samples):
        self.results.append(float((data_samples[0] - data_samples[1]).abs().mean()))

    def compute_metrics(self, results):
        return {"error": sum(results) / len(results)}


def train(folder, hooks=(), backends=(), *, fault=None, nan_at=None, **wrapper):
    """Trains two epochs of four batches; returns the model."""
    torch.manual_seed(0)
    data = [(inputs, inputs.sum(0, keepdim=True)) for inputs in torch.randn(32, 4)]
    loader = {
        "dataset": data,
        "batch_size": 8,
        "sampler": {"type": "DefaultSampler", "shuffle": False},
        "collate_fn": {"type": "default_collate"},
    }
    runner = Runner(
        model=(model := Network(fault, nan_at)),
        work_dir=str(folder / "work"),
        train_dataloader=loader,
        val_dataloader=loader,
        val_cfg={},
        val_evaluator=[Error()],
        train_cfg={"by_epoch": True, "max_epochs": 2, "val_interval": 1},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01}, **wrapper},
        custom_hooks=list(hooks),
        visualizer={"type": "Visualizer", "vis_backends": list(backends)},
        default_hooks={"logger": {"type": "LoggerHook", "interval": 1}, "checkpoint": None},
        log_level="ERROR",
        experiment_name=str(folder).replace("/", "_") + str(len(hooks)),
        randomness={"seed": 0},
    )
    runner.train()
    return model


def test_hook_and_backend_write_one_run_and_change_nothing(tmp_path):
    plain = train(tmp_path, accumulative_counts=2, clip_grad={"max_norm": 0.1})
    hook = {"type": "StepscopeHook", "config": {"max_overhead": None}}
    backend = {"type": "StepscopeVisBackend", "run": str(tmp_path / "run")}

    watched = train(tmp_path, [hook], [backend], accumulative_counts=2, clip_grad={"max_norm": 0.1})

    assert torch.equal(watched.net.weight, plain.net.weight)
    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == [0, 1, 2, 3]  # of two batches each
    assert record.scalars("total_norm/gradients").values == pytest.approx([0.1] * 4, rel=1e-3)
    assert record.scalars("logged/loss").steps.tolist()[-1] == 3
    assert record.scalars("validation/mean/error").steps.tolist() == [1, 3]
    assert record.info.status == "finished"


def test_a_hook_given_twice_works_once_and_says_so(tmp_path, caplog):
    hooks = [{"type": "StepscopeHook", "run": str(tmp_path / name)} for name in ("first", "second")]

    train(tmp_path, hooks)

    assert caplog.text.count("there are 2 StepscopeHooks; only the first one is active") == 1
    assert stepscope.read_run(tmp_path / "first").scalars("loss").steps.tolist() == list(range(8))
    assert not (tmp_path / "second").exists()


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "0.11.0rc3")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        hook, backend = {"type": "StepscopeHook"}, {"type": "StepscopeVisBackend", "run": str(tmp_path / name)}
        train(tmp_path / name, [hook], [backend])
        assert stepscope.read_run(tmp_path / name).scalars("loss").steps.tolist() == list(range(8))

    told = [one.message for one in caplog.records if one.levelno == logging.WARNING and "was tested" in one.message]
    assert len(told) == 1
    assert told[0].startswith("stepscope was tested with mmengine 0.10, and 0.11.0rc3 is installed: it continues")


def test_without_a_hook_what_is_logged_stands_under_the_steps_of_the_runner(tmp_path):
    train(tmp_path, [], [{"type": "StepscopeVisBackend", "run": str(tmp_path / "run")}])

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("logged/loss").steps.tolist() == list(range(1, 9))


def test_what_a_training_raises_comes_out_unchanged(tmp_path):
    fault = ValueError("here")
    with stepscope.open_run(tmp_path / "run") as run, pytest.raises(ValueError, match="here") as caught:
        train(tmp_path, [{"type": "StepscopeHook", "run": run, "config": {"max_overhead": None}}], fault=fault)

    assert caught.value is fault
    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == [0, 1]


def test_images_are_recorded(tmp_path):
    backend = StepscopeVisBackend(run=tmp_path / "run")
    backend.add_image("sample", torch.zeros(4, 5, 3, dtype=torch.uint8).numpy(), step=7)
    backend.add_scalar("accuracy", 0.5, step=7)
    backend.experiment.text("notes", "by the run itself", step=7)
    backend.close()

    record = stepscope.read_run(tmp_path / "run")
    assert [(one.step, one.width, one.height) for one in record.images("sample")] == [(7, 5, 4)]
    assert record.scalars("accuracy").steps.tolist() == [7]
    assert record.texts("notes")[0].text == "by the run itself"


@pytest.mark.parametrize("reaction", ["stop", "raise"])
def test_a_finding_ends_the_training(tmp_path, reaction):
    run = tmp_path / "run"
    hook = {"type": "StepscopeHook", "run": str(run), "on_finding": {"non_finite_loss": reaction}}
    if reaction == "raise":
        with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
            train(tmp_path, [hook], nan_at=3)
        return
    train(tmp_path, [hook], nan_at=3)
    record = stepscope.read_run(run)
    assert record.scalars("loss").steps.tolist() == [0, 1, 2, 3]  # a loop of epochs ends its epoch
    assert record.info.status == "finished"
