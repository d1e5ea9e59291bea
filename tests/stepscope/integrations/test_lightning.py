"""The callback and the logger in real Trainers of Lightning."""

import copy
import logging
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stepscope

lightning = pytest.importorskip("lightning", reason="needs Lightning: pip install 'stepscope[lightning]'")

from lightning.pytorch.plugins import MixedPrecision  # noqa: E402

from debuggers.gradients.unclipped_norm import UNCLIPPED  # noqa: E402
from stepscope.integrations import frameworks, lightning_factory  # noqa: E402
from stepscope.integrations.lightning import StepscopeCallback, StepscopeLogger  # noqa: E402

pytestmark = pytest.mark.framework

EVERYTHING = {"max_overhead": None}


class Regression(lightning.LightningModule):
    """A small network that keeps what its losses were."""

    def __init__(self, width=8, fault=None, factor=1.0):
        super().__init__()
        self.save_hyperparameters("width")
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 1))
        self.fault, self.factor, self.losses = fault, factor, []

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = self.factor * nn.functional.mse_loss(self.net(inputs), targets)
        if self.fault is not None and self.trainer.global_step == 2:
            loss = self.fault(loss)
        self.log("train_loss", loss)
        self.log("epoch_loss", loss, on_step=False, on_epoch=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(inputs), targets))
        self.log("val_largest", (self.net(inputs) - targets).abs().max())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class TwoPlayers(lightning.LightningModule):
    """A GAN of two linear layers, whose optimizers step in turn."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.automatic_optimization = False
        self.players = nn.ModuleDict({"generator": nn.Linear(4, 4), "judge": nn.Linear(4, 1)})
        self.losses = []

    def training_step(self, batch, index):
        generator, judge = self.players["generator"], self.players["judge"]
        real, _ = batch
        noise = real.roll(1, 0)
        first, second = self.optimizers()
        for optimizer, loss in (
            (second, lambda: judge(generator(noise).detach()).mean() - judge(real).mean()),
            (first, lambda: -judge(generator(noise)).mean()),
        ):
            optimizer.zero_grad()
            value = loss()
            self.manual_backward(value)
            optimizer.step()
            self.losses.append(value.item())

    def configure_optimizers(self):
        return [torch.optim.SGD(self.players[name].parameters(), lr=0.01) for name in ("generator", "judge")]


def batches(count=4):
    torch.manual_seed(1)
    inputs = torch.randn(8 * count, 4)
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)


def fit(module, *callbacks, validates=False, **settings):
    torch.manual_seed(2)
    settings = {"max_epochs": 2, "logger": False, "log_every_n_steps": 1, **settings}
    trainer = lightning.Trainer(
        callbacks=list(callbacks), accelerator="cpu", enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **settings,
    )  # fmt: skip
    trainer.fit(module, batches(), batches(2) if validates else None)
    return trainer


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "validates": True},
        {"precision": "bf16-mixed"},
    ],
    ids=["plain", "accumulated, clipped and validated", "bfloat16"],
)
def test_training_is_bit_identical(tmp_path, settings):
    plain, watched = Regression(), Regression()
    fit(plain, **settings)

    fit(watched, StepscopeCallback(tmp_path / "run", config="full"), **settings)

    assert watched.losses == plain.losses
    assert same(watched, plain)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_one_line_records_losses_gradients_metrics_and_validations(tmp_path):
    module = Regression()

    fit(module, StepscopeCallback(tmp_path / "run", **EVERYTHING), validates=True)

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").values.tolist() == pytest.approx(module.losses)
    assert record.scalars("total_norm/gradients").steps.tolist() == list(range(8))
    assert record.scalars("train_loss").values.tolist() == pytest.approx(module.losses)
    assert record.scalars("train_loss").steps.tolist() == list(range(8))
    means = [np.mean(module.losses[:4]), np.mean(module.losses[4:])]
    assert record.scalars("epoch_loss").values.tolist() == pytest.approx(means)
    assert record.scalars("epoch_loss").steps.tolist() == [3, 7]
    assert record.scalars("validation/loss").steps.tolist() == [3, 7]
    assert record.scalars("validation/largest").steps.tolist() == [3, 7]
    assert record.info.config["width"] == 8
    assert record.info.config["trainer"]["max_epochs"] == 2


def test_a_step_of_several_batches_counts_once(tmp_path):
    module = Regression()

    fit(module, StepscopeCallback(tmp_path / "run", **EVERYTHING), accumulate_grad_batches=2)

    record = stepscope.read_run(tmp_path / "run")
    expected = [(a + b) / 2 for a, b in zip(module.losses[::2], module.losses[1::2], strict=True)]
    assert record.scalars("loss").values.tolist() == pytest.approx(expected)
    assert record.scalars("train_loss").steps.tolist() == [0, 1, 2, 3]


def test_the_last_step_of_an_epoch_has_the_mean_of_the_batches_left(tmp_path):
    module = Regression()

    fit(module, StepscopeCallback(tmp_path / "run", **EVERYTHING), accumulate_grad_batches=3)

    first, last = ([sum(one[:3]) / 3, one[3]] for one in (module.losses[:4], module.losses[4:]))
    assert stepscope.read_run(tmp_path / "run").scalars("loss").values.tolist() == pytest.approx(first + last)


def test_norms_before_and_after_clipping_are_both_there(tmp_path):
    plain = Regression(factor=100.0)
    fit(plain, StepscopeCallback(tmp_path / "plain", **EVERYTHING), max_epochs=1)
    fit(Regression(factor=100.0), StepscopeCallback(tmp_path / "run", **EVERYTHING), gradient_clip_val=0.5)

    record = stepscope.read_run(tmp_path / "run")
    unclipped, clipped = record.scalars(UNCLIPPED), record.scalars("total_norm/gradients")
    assert unclipped.steps.tolist() == clipped.steps.tolist() == list(range(8))
    assert clipped.values == pytest.approx(np.full(8, 0.5), rel=1e-3)
    first = stepscope.read_run(tmp_path / "plain").scalars("total_norm/gradients").values[0]
    assert unclipped.values[0] == pytest.approx(first, rel=0.01)
    assert UNCLIPPED not in {one.name for one in stepscope.read_run(tmp_path / "plain").names()}


def test_a_module_that_clips_by_itself_shows_both_norms_too(tmp_path):
    class Clips(Regression):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            self.clip_gradients(optimizer, 0.25, "norm")

    fit(Clips(factor=100.0), StepscopeCallback(tmp_path / "run", **EVERYTHING), max_epochs=1)

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("total_norm/gradients").values == pytest.approx(np.full(4, 0.25), rel=1e-3)
    assert record.scalars(UNCLIPPED).values.min() > 10


def test_gradients_under_a_scaler_are_unscaled(tmp_path):
    for name, scale in (("one", 1.0), ("scaled", 1024.0)):
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        precision = MixedPrecision("16-mixed", "cpu", scaler)
        fit(Regression(), StepscopeCallback(tmp_path / name, **EVERYTHING), plugins=[precision], gradient_clip_val=0.5)

    one, scaled = (stepscope.read_run(tmp_path / name) for name in ("one", "scaled"))
    for series in ("loss", "total_norm/gradients", UNCLIPPED):
        assert scaled.scalars(series).values == pytest.approx(one.scalars(series).values, rel=0.02), series


def test_each_optimizer_has_its_own_session_and_scope(tmp_path):
    plain, watched = TwoPlayers(), TwoPlayers()
    fit(plain)

    fit(watched, StepscopeCallback(tmp_path / "run", **EVERYTHING))

    record = stepscope.read_run(tmp_path / "run")
    assert watched.losses == plain.losses
    assert record.scalars("players/judge/loss").values.tolist() == pytest.approx(watched.losses[::2])
    assert record.scalars("players/generator/loss").values.tolist() == pytest.approx(watched.losses[1::2])
    assert len(record.scalars("players/generator/gradient_norm/weight").steps) == 8
    assert "mixed_series" not in {alert.name for alert in record.alerts()}


def test_a_module_can_watch_the_list_of_its_optimizers():
    """What Lightning gives as optimizers are wrappers, which show the hooks of what they wrap."""

    class Watches(TwoPlayers):
        def on_fit_start(self):
            self.session = stepscope.watch(self, self.optimizers(), updates=True)

    plain, watched = TwoPlayers(), Watches()
    fit(plain)
    fit(watched)
    report = watched.session.close()
    assert watched.losses == plain.losses
    assert watched.session.last_step == 7
    assert report.failures == {}
    assert report.coverage.measured == 8
    assert report.coverage.outside_optimizer == ()


def test_a_nan_loss_is_shown(tmp_path):
    module = Regression(fault=lambda loss: loss * float("nan"))

    fit(module, StepscopeCallback(tmp_path / "run", **EVERYTHING))

    record = stepscope.read_run(tmp_path / "run")
    assert np.isnan(record.scalars("loss").values[2])
    assert "non_finite_loss" in {alert.name for alert in record.alerts()}


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    ("fault", "status"), [(Broken("here"), "failed"), (SystemExit(3), "failed"), (SystemExit(0), "finished")]
)
def test_what_training_raises_comes_out_unchanged_and_the_run_says_how_it_ended(tmp_path, fault, status):
    def raises(loss):
        raise fault

    with pytest.raises(type(fault)) as caught:
        fit(Regression(fault=raises), StepscopeCallback(tmp_path / "run"), logger=StepscopeLogger(tmp_path / "run"))

    assert caught.value is fault
    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == status
    assert record.scalars("loss").steps.tolist() == [0, 1]
    assert not (tmp_path / "run-2").exists()


def test_logger_and_callback_share_a_run_beside_other_loggers(tmp_path):
    csv = lightning.pytorch.loggers.CSVLogger(tmp_path / "csv")
    callback, logger = StepscopeCallback(config="full"), StepscopeLogger(tmp_path / "run")

    fit(Regression(), callback, logger=[csv, logger], validates=True)

    record = stepscope.read_run(tmp_path / "run")
    names = {one.name for one in record.names()}
    assert {"loss", "train_loss", "validation/loss", "updates/0.weight", "epoch"} <= names
    assert record.scalars("train_loss").steps.tolist() == list(range(8))
    assert record.info.config["width"] == 8
    assert "hyperparameters" not in names
    assert list((tmp_path / "csv").rglob("metrics.csv"))


def test_a_logger_alone_records_what_is_logged_and_continues_its_run(tmp_path):
    logger, module = StepscopeLogger(tmp_path / "run"), Regression()
    trainer = fit(module, logger=logger, max_epochs=1)
    logger.log_hyperparams({"later": 1})
    trainer.validate(module, batches(2), verbose=False)

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("train_loss").values.tolist() == pytest.approx(module.losses)
    assert len(record.scalars("validation/loss").steps) == 1
    assert record.info.config["later"] == 1
    assert record.info.status == "finished"
    assert not (tmp_path / "run-2").exists()


def test_a_callback_given_twice_works_once_and_says_so(tmp_path, caplog):
    module = Regression()

    fit(module, StepscopeCallback(tmp_path / "first"), StepscopeCallback(tmp_path / "second"))

    assert caplog.text.count("there are 2 StepscopeCallbacks") == 1
    assert len(stepscope.read_run(tmp_path / "first").scalars("loss").steps) == len(module.losses)
    assert not (tmp_path / "second").exists()


def test_two_loggers_record_what_is_logged_in_a_run_each(tmp_path):
    module = Regression()

    fit(module, logger=[StepscopeLogger(tmp_path / "first"), StepscopeLogger(tmp_path / "second")])

    first, second = (stepscope.read_run(tmp_path / name) for name in ("first", "second"))
    assert first.info.status == second.info.status == "finished"
    assert first.scalars("train_loss").values.tolist() == second.scalars("train_loss").values.tolist() != []


def test_an_open_run_stays_open(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=()) as run:
        fit(Regression(), StepscopeCallback(run.scoped("first")), max_epochs=1)
        run.scalar("later", 1.0, step=0)

    record = stepscope.read_run(tmp_path / "run")
    assert len(record.scalars("first/loss").steps) == 4
    assert record.scalars("later").values.tolist() == [1.0]


def test_steps_go_on_where_a_checkpoint_ended(tmp_path):
    trainer = fit(Regression(), max_epochs=1)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    callback = StepscopeCallback(tmp_path / "run")
    again = lightning.Trainer(
        max_epochs=2, callbacks=[callback], logger=False, accelerator="cpu", enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    again.fit(Regression(), batches(), ckpt_path=tmp_path / "last.ckpt", weights_only=False)

    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == [4, 5, 6, 7]


def test_the_environment_puts_the_callback_into_every_trainer(tmp_path, monkeypatch):
    """By the entry point of pyproject.toml, as an installed distribution has it."""
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    group = "lightning.pytorch.callbacks_factory"
    _, _, section = pyproject.partition(f'[project.entry-points."{group}"]\n')
    info = tmp_path / "site" / "as_installed-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: as-installed\nVersion: 1.0\n")
    line = section.splitlines()[0].replace('"', "")
    (info / "entry_points.txt").write_text(f"[{group}]\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("STEPSCOPE_RUN", str(tmp_path / "run"))

    fit(Regression(), max_epochs=1)
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("STEPSCOPE_WATCH", "1")
    fit(Regression(), max_epochs=1)
    fit(Regression(), StepscopeCallback(tmp_path / "own"), max_epochs=1)

    assert len(stepscope.read_run(tmp_path / "run").scalars("loss").steps) == 4
    assert len(stepscope.read_run(tmp_path / "own").scalars("loss").steps) == 4
    assert not (tmp_path / "run-2").exists()


def test_a_factory_that_was_not_asked_gives_nothing(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_WATCH", "0")
    assert lightning_factory.callbacks() == []


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "3.1.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        fit(Regression(), StepscopeCallback(tmp_path / name), max_epochs=1)
        assert len(stepscope.read_run(tmp_path / name).scalars("loss").steps) == 4

    told = [one for one in caplog.records if one.levelno == logging.WARNING and "3.1.0 is installed" in one.message]
    assert len(told) == 1


def test_trainer_and_callback_can_be_copied_and_pickled(tmp_path):
    callback = StepscopeCallback(tmp_path / "run")
    copies = [copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))]
    fit(Regression(), callback, max_epochs=1)

    for one in copies:
        fit(Regression(), one, max_epochs=1)

    assert len(stepscope.read_run(tmp_path / "run-3").scalars("loss").steps) == 4


def test_wrong_arguments_are_refused_at_their_line():
    with pytest.raises(stepscope.ConfigError, match="no field 'updatez'"):
        StepscopeCallback("runs/exp1", updatez=True)
    with pytest.raises(stepscope.SessionError, match="run is int 3; expected a folder, or an open run"):
        StepscopeCallback(3)


RANKS = """
import sys
sys.path.insert(0, {place!r})
import lightning, torch
import test_lightning as tests
torch.set_num_threads(1)
trainer = lightning.Trainer(
    max_epochs=1, logger=tests.StepscopeLogger({run!r}), callbacks=[tests.StepscopeCallback()], accelerator="cpu",
    devices=2, strategy="ddp", enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(tests.Regression(), tests.batches())
"""


@pytest.mark.slow
def test_each_rank_writes_its_own_store(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RANKS.format(place=str(Path(__file__).parent), run=str(tmp_path / "run")))

    for name in ("run", "run-2"):
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)

        assert done.returncode == 0, done.stderr
        record = stepscope.read_run(tmp_path / name)
        losses = [record.scalars("loss", rank=rank).values for rank in (0, 1)]
        norms = [record.scalars("total_norm/gradients", rank=rank).values for rank in (0, 1)]
        assert len(losses[0]) == len(losses[1]) == 2
        assert (losses[0] != losses[1]).all()
        assert norms[0].tolist() == norms[1].tolist()  # of gradients that were averaged


NAN = {"fault": lambda loss: loss * float("nan")}


def test_a_finding_stops_the_trainer_at_its_step(tmp_path):
    callback = StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "stop"})

    trainer = fit(Regression(**NAN), callback)

    assert (trainer.should_stop, trainer.global_step) == (True, 3)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_an_exception_of_a_finding_comes_out_of_fit(tmp_path):
    with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
        fit(Regression(**NAN), StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "raise"}))
    assert stepscope.read_run(tmp_path / "run").info.status == "failed"


def test_without_a_finding_a_training_goes_on(tmp_path):
    trainer = fit(Regression(), StepscopeCallback(tmp_path / "run", on_finding={"error": ["stop", "raise"]}))
    assert (trainer.should_stop, trainer.global_step) == (False, 8)


class Untrained(Regression):
    """A module without an optimizer, whose gradients nobody zeroes."""

    def configure_optimizers(self):
        return None


def test_where_watching_is_disabled_metrics_have_the_steps_of_their_batches(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")

    fit(Regression(), StepscopeCallback(tmp_path / "run"), max_epochs=1, log_every_n_steps=1)

    steps = stepscope.read_run(tmp_path / "run").scalars("train_loss").steps.tolist()
    assert len(steps) > 1
    assert steps == list(range(len(steps)))
    assert "disabled by STEPSCOPE_DISABLED: nothing was measured" in capsys.readouterr().err


def test_without_an_optimizer_nothing_is_judged(tmp_path, caplog):
    plain, module = Untrained(), Untrained()
    fit(plain, max_epochs=10)

    fit(module, StepscopeCallback(tmp_path / "run", **EVERYTHING), max_epochs=10)

    record = stepscope.read_run(tmp_path / "run")
    assert module.losses == plain.losses
    assert record.alerts() == []
    assert record.scalars("train_loss").values.tolist() == pytest.approx(module.losses)
    assert record.scalars("train_loss").steps.tolist() == list(range(40))
    assert caplog.text.count("Untrained has no optimizer (configure_optimizers returned None)") == 1
