"""The callback in real Trainers of Transformers, with a tiny random GPT-2 that reads Python's own sources."""

import logging
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import stepscope

transformers = pytest.importorskip("transformers", reason="needs Transformers: pip install 'stepscope[transformers]'")
pytest.importorskip("accelerate", reason="Transformers' Trainer needs Accelerate")

from debuggers.gradients.unclipped_norm import UNCLIPPED  # noqa: E402
from stepscope.integrations import frameworks  # noqa: E402
from stepscope.integrations.transformers import StepscopeCallback  # noqa: E402

pytestmark = pytest.mark.framework

EVERYTHING = {"max_overhead": None}


class Texts(torch.utils.data.Dataset):
    """Pieces of 16 bytes of a source file."""

    def __init__(self, count):
        self._bytes = Path(textwrap.__file__).read_bytes()[: 16 * count]
        self._count = count

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        piece = torch.tensor(list(self._bytes[16 * index : 16 * index + 16]))
        return {"input_ids": piece, "labels": piece}


class Keeps(transformers.Trainer):
    """A Trainer that keeps the loss of each batch, and lets a fault happen at one."""

    fault = None

    def training_step(self, *args, **kwargs):
        if self.fault is not None and self.state.global_step == 2:
            raise self.fault
        loss = super().training_step(*args, **kwargs)
        self.losses = [*getattr(self, "losses", []), loss.item()]
        return loss


def model():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def trainer(folder, *callbacks, kind=Keeps, network=None, **settings):
    settings = {"max_steps": 4, "logging_steps": 1, "per_device_train_batch_size": 4, "save_strategy": "no", **settings}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"), use_cpu=True, disable_tqdm=True, **settings
    )
    network = model() if network is None else network
    return kind(network, arguments, train_dataset=Texts(64), eval_dataset=Texts(8), callbacks=list(callbacks))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gradient_accumulation_steps": 2, "max_grad_norm": 0.1, "eval_strategy": "steps", "eval_steps": 2},
        {"bf16": True},
    ],
    ids=["plain", "accumulated, clipped and evaluated", "bfloat16"],
)
def test_training_is_bit_identical(tmp_path, settings):
    plain = trainer(tmp_path, **settings)
    plain.train()
    watched = trainer(tmp_path, StepscopeCallback(tmp_path / "run", config="full"), **settings)
    watched.train()

    assert watched.losses == plain.losses
    assert same(watched.model, plain.model)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_one_line_records_losses_gradients_metrics_and_evaluations(tmp_path):
    settings = {"eval_strategy": "steps", "eval_steps": 2, "learning_rate": 0.01}
    watched = trainer(tmp_path, StepscopeCallback(tmp_path / "run", **EVERYTHING), **settings)

    watched.train()

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == list(range(4))
    assert record.scalars("loss").values.tolist() == pytest.approx(watched.losses, rel=1e-6)
    assert record.scalars("logged/loss").values.tolist() == pytest.approx(watched.losses, rel=1e-3)
    assert record.scalars("logged/loss").steps.tolist() == list(range(4))
    assert record.scalars("validation/loss").steps.tolist() == [1, 3]
    assert record.scalars("gradient_norm/transformer.wte.weight").steps.tolist() == list(range(4))
    assert record.info.config["training"]["learning_rate"] == 0.01
    assert record.info.config["model"]["n_embd"] == 8


def test_a_step_of_several_batches_counts_once(tmp_path):
    watched = trainer(tmp_path, StepscopeCallback(tmp_path / "run", **EVERYTHING), gradient_accumulation_steps=2)

    watched.train()

    record = stepscope.read_run(tmp_path / "run")
    expected = [a + b for a, b in zip(watched.losses[::2], watched.losses[1::2], strict=True)]
    assert record.scalars("loss").values.tolist() == pytest.approx(expected, rel=1e-6)
    assert record.scalars("logged/loss").values.tolist() == pytest.approx(expected, rel=1e-3)


def test_norms_before_and_after_clipping_are_both_there(tmp_path):
    trainer(tmp_path, StepscopeCallback(tmp_path / "run", **EVERYTHING), max_grad_norm=0.1).train()

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("total_norm/gradients").values == pytest.approx(np.full(4, 0.1), rel=1e-3)
    assert record.scalars(UNCLIPPED).values.min() > 0.2
    assert record.scalars(UNCLIPPED).steps.tolist() == list(range(4))


def test_the_filter_of_logged_losses_hides_no_nan(tmp_path):
    class Breaks(Keeps):
        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            return loss * float("nan") if self.state.global_step == 2 else loss

    watched = trainer(tmp_path, StepscopeCallback(tmp_path / "run", **EVERYTHING), kind=Breaks)

    watched.train()

    record = stepscope.read_run(tmp_path / "run")
    assert watched.args.logging_nan_inf_filter
    assert np.isfinite(record.scalars("logged/loss").values[2])
    assert np.isnan(record.scalars("loss").values[2])
    assert "non_finite_loss" in {alert.name for alert in record.alerts()}


class Broken(Exception):
    pass


def test_what_training_raises_comes_out_unchanged_and_the_next_training_marks_the_run_as_failed(tmp_path):
    watched, fault = trainer(tmp_path, StepscopeCallback(tmp_path / "run")), Broken("here")
    watched.fault = fault

    with pytest.raises(Broken) as caught:
        watched.train()

    assert caught.value is fault
    assert stepscope.read_run(tmp_path / "run").info.status == "running"
    watched.fault = None
    watched.train()
    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == "finished"
    assert record.scalars("loss").steps.tolist() == list(range(2 + 4))
    assert not (tmp_path / "run-2").exists()


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
import test_transformers as tests
watched = tests.trainer(Path({place!r}), tests.StepscopeCallback({run!r}))
watched.fault = {fault}
watched.train()
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["SystemExit(3)", "tests.Broken('here')"])
def test_a_process_that_ends_before_its_training_leaves_a_failed_run(tmp_path, fault):
    run = tmp_path / "run"
    place = str(Path(__file__).parent)
    script = SCRIPT.format(folder=place, place=str(tmp_path), run=str(run), fault=fault)

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == (3 if "Exit" in fault else 1), done.stderr
    record = stepscope.read_run(run)
    assert record.info.status == "failed"
    assert record.scalars("loss").steps.tolist() == [0, 1]


def test_report_to_records_beside_another_tracker(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))

    trainer(tmp_path, report_to=["stepscope", "tensorboard"]).train()

    assert len(stepscope.read_run(tmp_path / "run").scalars("loss").steps) == 4
    assert list((tmp_path / "events").glob("events.out.tfevents.*"))


def test_a_callback_that_was_given_takes_the_place_of_that_of_report_to(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("STEPSCOPE_RUN", str(tmp_path / "unasked"))

    trainer(tmp_path, StepscopeCallback(tmp_path / "run"), report_to="stepscope").train()

    assert len(stepscope.read_run(tmp_path / "run").scalars("loss").steps) == 4
    assert not (tmp_path / "unasked").exists()
    assert "StepscopeCallbacks" not in caplog.text


def test_a_callback_given_twice_works_once_and_says_so(tmp_path, caplog):
    first, second = StepscopeCallback(tmp_path / "first"), StepscopeCallback(tmp_path / "second")

    trainer(tmp_path, first, second, report_to="stepscope").train()

    assert caplog.text.count("there are 2 StepscopeCallbacks") == 1
    assert len(stepscope.read_run(tmp_path / "first").scalars("loss").steps) == 4
    assert not (tmp_path / "second").exists()


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "6.0.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        trainer(tmp_path, StepscopeCallback(tmp_path / name), max_steps=2).train()
        assert len(stepscope.read_run(tmp_path / name).scalars("loss").steps) == 2

    told = [one for one in caplog.records if one.levelno == logging.WARNING and "6.0.0 is installed" in one.message]
    assert len(told) == 1


def test_steps_go_on_where_a_checkpoint_ended(tmp_path):
    trainer(tmp_path, max_steps=3, save_strategy="steps", save_steps=3).train()
    again = trainer(tmp_path, StepscopeCallback(tmp_path / "run"), max_steps=5)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))

    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == [3, 4]


def test_a_second_training_is_logged_under_the_steps_of_its_losses(tmp_path):
    watched = trainer(tmp_path, StepscopeCallback(tmp_path / "run"), max_steps=3, logging_steps=1)
    watched.train()
    watched.train()

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert record.scalars("logged/loss").steps.tolist() == [0, 1, 2, 3, 4, 5]


class OneNaN(transformers.Trainer):
    """A Trainer whose loss is NaN at the third step."""

    def compute_loss(self, *args, **kwargs):
        loss = super().compute_loss(*args, **kwargs)
        return loss * float("nan") if self.state.global_step == 2 else loss


def test_a_finding_stops_the_training_at_its_step(tmp_path):
    callback = StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "stop"})
    watched = trainer(tmp_path, callback, kind=OneNaN, max_steps=6)

    watched.train()

    assert watched.state.global_step == 3
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_an_exception_of_a_finding_comes_out_of_train(tmp_path):
    callback = StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "raise"})
    with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
        trainer(tmp_path, callback, kind=OneNaN).train()
