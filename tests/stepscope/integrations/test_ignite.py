"""The logger in real engines of Ignite."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

import stepscope

pytest.importorskip("ignite", reason="needs Ignite: pip install 'stepscope[ignite]'")

from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers.tensorboard_logger import TensorboardLogger
from ignite.metrics import Loss

from stepscope.integrations import frameworks
from stepscope.integrations.ignite import StepscopeLogger

pytestmark = pytest.mark.framework

EVERYTHING = {"max_overhead": None}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))


def batches(count=4):
    torch.manual_seed(1)
    return [(inputs, inputs.sum(1, keepdim=True)) for inputs in torch.randn(count, 16, 4)]


class Training:
    """A model with its trainer and evaluator; keeps the loss of each batch."""

    def __init__(self, *, narrow=False, **settings):
        self.model, self.losses = network(), []
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        criterion = nn.MSELoss()
        self.trainer = create_supervised_trainer(self.model, self.optimizer, criterion, **settings)
        if narrow:
            self.trainer = Engine(lambda engine, batch: self.narrow_step(criterion, *batch))
        self.trainer.add_event_handler(
            Events.ITERATION_COMPLETED, lambda engine: self.losses.append(engine.state.output)
        )
        self.evaluator = create_supervised_evaluator(self.model)
        self.trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: self.evaluator.run(batches(2)))

    def narrow_step(self, criterion, inputs, targets):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = criterion(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, logger=None, epochs=2):
        if logger is not None:
            logger.watch(self.trainer, self.model, self.optimizer, validation=self.evaluator)
        Loss(nn.MSELoss()).attach(self.evaluator, "loss")
        torch.manual_seed(2)
        self.trainer.run(batches(), max_epochs=epochs)
        if logger is not None:
            logger.close()
        return self


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "settings",
    [{}, {"gradient_accumulation_steps": 2}, {"narrow": True}],
    ids=["plain", "accumulated", "bfloat16"],
)
def test_training_is_bit_identical(tmp_path, settings):
    plain = Training(**settings).run()

    watched = Training(**settings).run(StepscopeLogger(tmp_path / "run", config="full"))

    assert watched.losses == plain.losses
    assert same(watched.model, plain.model)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_losses_gradients_and_validations_are_recorded(tmp_path):
    training = Training().run(StepscopeLogger(tmp_path / "run", **EVERYTHING))

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").values.tolist() == pytest.approx(training.losses)
    assert record.scalars("gradient_norm/0.weight").steps.tolist() == list(range(8))
    assert record.scalars("validation/loss").steps.tolist() == [3, 7]


def test_a_step_of_several_batches_counts_once(tmp_path):
    training = Training(gradient_accumulation_steps=2).run(StepscopeLogger(tmp_path / "run", **EVERYTHING))

    record = stepscope.read_run(tmp_path / "run")
    expected = [(a + b) / 2 for a, b in zip(training.losses[::2], training.losses[1::2], strict=True)]
    assert record.scalars("loss").values.tolist() == pytest.approx(expected)


def test_handlers_record_as_those_of_other_loggers_do(tmp_path):
    training, logger = Training(), StepscopeLogger(tmp_path / "run")
    others = TensorboardLogger(log_dir=tmp_path / "events")
    for one in (logger, others):
        one.attach_output_handler(
            training.trainer, Events.ITERATION_COMPLETED, tag="training", output_transform=lambda loss: {"mse": loss}
        )
        one.attach_opt_params_handler(training.trainer, Events.EPOCH_STARTED, optimizer=training.optimizer)
    training.run()
    logger.run.text("notes", "by the run itself", step=0)
    logger.close()
    others.close()

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("training/mse").values.tolist() == pytest.approx(training.losses)
    assert record.scalars("training/mse").steps.tolist() == list(range(1, 9))  # as Ignite counts iterations
    assert record.scalars("lr/group_0").values.tolist() == pytest.approx([0.01, 0.01])
    assert list((tmp_path / "events").glob("events.out.tfevents.*"))


def test_handlers_use_the_steps_of_what_is_watched(tmp_path):
    training, logger = Training(), StepscopeLogger(tmp_path / "run", **EVERYTHING)
    logger.attach_output_handler(
        training.trainer, Events.ITERATION_COMPLETED, tag="training", output_transform=lambda loss: {"mse": loss}
    )
    training.run(logger)

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("training/mse").steps.tolist() == record.scalars("loss").steps.tolist() == list(range(8))


def test_each_optimizer_has_its_own_session_and_norms_before_and_after_clipping_are_there(tmp_path):
    players = nn.ModuleDict({"generator": nn.Linear(4, 4), "judge": nn.Linear(4, 1)})
    optimizers = [torch.optim.SGD(player.parameters(), lr=0.01) for player in players.values()]

    def update(engine, batch):
        for optimizer in optimizers:
            optimizer.zero_grad()
            players["judge"](players["generator"](batch[0])).square().mean().backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1e-3)
            optimizer.step()

    trainer, logger = Engine(update), StepscopeLogger(tmp_path / "run", **EVERYTHING)
    logger.watch(trainer, players, optimizers)
    trainer.run(batches(), max_epochs=1)
    logger.close()

    record = stepscope.read_run(tmp_path / "run")
    for name in ("generator", "judge"):
        assert record.scalars(f"{name}/total_norm/gradients").values == pytest.approx(np.full(4, 1e-3), rel=1e-2)
        assert record.scalars(f"{name}/diagnosis/unclipped_norm").values.min() > 1e-2


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    ("fault", "status"), [(Broken("here"), "failed"), (SystemExit(3), "failed"), (SystemExit(0), "finished")]
)
def test_what_training_raises_comes_out_unchanged_and_the_run_says_how_it_ended(tmp_path, fault, status):
    training = Training()

    @training.trainer.on(Events.ITERATION_COMPLETED(once=3))
    def breaks():
        raise fault

    with pytest.raises(type(fault)) as caught:
        training.run(StepscopeLogger(tmp_path / "run"))

    assert caught.value is fault
    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == status
    assert record.scalars("loss").steps.tolist() == [0, 1, 2]


def test_a_handler_of_exceptions_that_the_user_attached_decides(tmp_path):
    training, caught = Training(), []
    training.trainer.add_event_handler(Events.EXCEPTION_RAISED, lambda engine, error: caught.append(error))

    @training.trainer.on(Events.ITERATION_COMPLETED(once=3))
    def breaks():
        raise Broken("here")

    training.run(StepscopeLogger(tmp_path / "run"))

    assert [type(error) for error in caught] == [Broken]
    record = stepscope.read_run(tmp_path / "run")
    assert [alert.message for alert in record.alerts() if alert.name == "handled_exception"] == ["Broken: here"]
    assert len(record.scalars("loss").steps) == len(training.losses) == 3 + 4  # the trainer went on with the next epoch


def test_a_block_that_an_exception_leaves_marks_the_run_as_failed(tmp_path):
    training, logger = Training(), StepscopeLogger(tmp_path / "run")

    with pytest.raises(Broken), logger:
        logger.watch(training.trainer, training.model, training.optimizer)
        training.trainer.run(batches(), max_epochs=1)
        raise Broken

    assert stepscope.read_run(tmp_path / "run").info.status == "failed"


def test_a_nan_loss_is_shown(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = create_supervised_trainer(model, optimizer, lambda outputs, targets: (outputs * float("nan")).mean())
    with StepscopeLogger(tmp_path / "run") as logger:
        logger.watch(trainer, model, optimizer)
        trainer.run(batches(), max_epochs=1)

    assert np.isnan(stepscope.read_run(tmp_path / "run").scalars("loss").values).all()


def test_a_trainer_that_is_watched_twice_is_watched_once_and_that_is_said(tmp_path, caplog):
    training, logger = Training(), StepscopeLogger(tmp_path / "run")
    logger.watch(training.trainer, training.model, training.optimizer)

    training.run(logger)

    assert caplog.text.count("there are 2 calls of StepscopeLogger.watch for one trainer") == 1
    assert "no step was taken" not in caplog.text
    assert stepscope.read_run(tmp_path / "run").scalars("loss").values.tolist() == pytest.approx(training.losses)


def test_a_trainer_that_is_terminated_leaves_no_hook(tmp_path):
    training = Training()
    training.trainer.add_event_handler(
        Events.ITERATION_COMPLETED(once=3), lambda engine: engine.terminate(skip_completed=True)
    )
    training.run(StepscopeLogger(tmp_path / "run"))

    assert not training.optimizer._optimizer_step_pre_hooks
    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == [0, 1, 2]


def test_a_trainer_that_runs_twice_continues_its_steps(tmp_path):
    training, logger = Training(), StepscopeLogger(tmp_path / "run")
    logger.watch(training.trainer, training.model, training.optimizer)
    training.trainer.run(batches(), max_epochs=1)
    training.trainer.run(batches(), max_epochs=2)
    logger.close()

    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == list(range(8))


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "1.0.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        Training().run(StepscopeLogger(tmp_path / name), epochs=1)
        assert len(stepscope.read_run(tmp_path / name).scalars("loss").steps) == 4

    told = [one for one in caplog.records if one.levelno == logging.WARNING and "1.0.0 is installed" in one.message]
    assert len(told) == 1


def broken_at(step):
    """A training whose loss is NaN at a step."""
    training = Training()
    training.trainer.add_event_handler(
        Events.ITERATION_STARTED(once=step + 1), lambda engine: engine.state.batch[1].fill_(float("nan"))
    )
    return training


def test_a_finding_terminates_the_trainer(tmp_path):
    training = broken_at(2).run(StepscopeLogger(tmp_path / "run", on_finding={"non_finite_loss": "stop"}))

    assert training.trainer.state.iteration == 3
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_an_exception_of_a_finding_comes_out_of_run(tmp_path):
    with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
        broken_at(2).run(StepscopeLogger(tmp_path / "run", on_finding={"non_finite_loss": "raise"}))
    assert stepscope.read_run(tmp_path / "run").info.status == "failed"
