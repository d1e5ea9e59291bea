"""The tracker in real loops of Accelerate."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

import stepscope

accelerate = pytest.importorskip("accelerate", reason="needs Accelerate: pip install 'stepscope[accelerate]'")

from accelerate.state import AcceleratorState, GradientState, PartialState  # noqa: E402

from stepscope.integrations import frameworks  # noqa: E402
from stepscope.integrations.accelerate import StepscopeTracker, should_stop, watch  # noqa: E402

pytestmark = pytest.mark.framework

EVERYTHING = {"max_overhead": None}


@pytest.fixture(autouse=True)
def _fresh_state():
    """Accelerate keeps the settings of the first accelerator of a process for all later ones."""
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


class Network(nn.Sequential):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))


def train(
    folder=None, *, steps=6, clip=None, fault=None, log_with="stepscope", validates=False, options=None, **settings
):
    """Trains, and returns the model and the loss of each batch; with a folder the training is watched."""
    accelerator = accelerate.Accelerator(cpu=True, log_with=log_with if folder else None, **settings)
    module = Network()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(module, optimizer)
    if folder is not None:
        given = {"stepscope": {"run": folder, **EVERYTHING, **(options or {})}}
        accelerator.init_trackers("ignored", config={"lr": 0.01}, init_kwargs=given)
        watch(accelerator, model, optimizer)
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        inputs = torch.randn(16, 4)
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            if fault is not None and step == 2:
                loss = fault(loss)
            accelerator.backward(loss)
            if clip is not None and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        accelerator.log({"train_loss": loss.item(), "phase": "warm-up"})
        if folder is not None and should_stop(accelerator):
            break
    if validates:
        accelerator.log({"val_loss": 0.5, "val_accuracy": torch.tensor(0.9)})
    accelerator.end_training()
    return module, losses


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "settings",
    [{}, {"gradient_accumulation_steps": 2, "clip": 0.1}, {"mixed_precision": "bf16"}],
    ids=["plain", "accumulated and clipped", "bfloat16"],
)
def test_training_is_bit_identical(tmp_path, settings):
    plain, losses = train(**settings)
    AcceleratorState._reset_state()

    watched, observed = train(tmp_path / "run", **settings)

    assert observed == losses
    assert same(watched, plain)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_losses_gradients_and_what_is_logged_are_recorded(tmp_path):
    _, losses = train(tmp_path / "run", validates=True)

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").values.tolist() == pytest.approx(losses)
    assert record.scalars("train_loss").values.tolist() == pytest.approx(losses)
    assert record.scalars("train_loss").steps.tolist() == record.scalars("loss").steps.tolist() == list(range(6))
    assert record.scalars("validation/loss").values.tolist() == [0.5]
    assert record.scalars("validation/accuracy").steps.tolist() == [5]
    assert {one.text for one in record.texts("phase")} == {"warm-up"}
    assert record.info.config == {"lr": 0.01}


def test_a_step_of_several_batches_counts_once(tmp_path):
    _, losses = train(tmp_path / "run", gradient_accumulation_steps=2, clip=0.1)

    record = stepscope.read_run(tmp_path / "run")
    expected = [(a + b) / 2 for a, b in zip(losses[::2], losses[1::2], strict=True)]
    assert record.scalars("loss").values.tolist() == pytest.approx(expected)
    assert record.scalars("total_norm/gradients").values == pytest.approx(np.full(3, 0.1), rel=1e-3)
    assert record.scalars("diagnosis/unclipped_norm").values.min() > 0.1


def test_the_last_step_of_an_epoch_has_the_mean_of_the_batches_left(tmp_path):
    tracker = StepscopeTracker(run=tmp_path / "run", **EVERYTHING)
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker, gradient_accumulation_steps=3)
    module = Network().eval()
    model, optimizer, loader = accelerator.prepare(
        module, torch.optim.Adam(module.parameters()), torch.utils.data.DataLoader(torch.randn(64, 4), 16)
    )
    accelerator.init_trackers("ignored")
    watch(accelerator, model, optimizer)
    losses = []
    for inputs in loader:
        with accelerator.accumulate(model):
            loss = model(inputs).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    accelerator.end_training()

    recorded = stepscope.read_run(tmp_path / "run").scalars("loss").values.tolist()
    assert recorded == pytest.approx([sum(losses[:3]) / 3, losses[3]])


def test_a_nan_loss_is_shown(tmp_path):
    train(tmp_path / "run", fault=lambda loss: loss * float("nan"))

    record = stepscope.read_run(tmp_path / "run")
    assert np.isnan(record.scalars("loss").values[2])
    assert "non_finite_loss" in {alert.name for alert in record.alerts()}


def test_each_optimizer_has_its_own_session_and_scope(tmp_path):
    tracker = StepscopeTracker(run=tmp_path / "run", **EVERYTHING)
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
    players = nn.ModuleDict({"generator": nn.Linear(4, 4), "judge": nn.Linear(4, 1)})
    pairs = [torch.optim.SGD(player.parameters(), lr=0.01) for player in players.values()]
    players, *pairs = accelerator.prepare(players, *pairs)
    accelerator.init_trackers("ignored")
    watch(accelerator, players, *pairs)
    for _ in range(4):
        for optimizer in pairs:
            optimizer.zero_grad()
            accelerator.backward(players["judge"](players["generator"](torch.randn(8, 4))).mean())
            optimizer.step()
    accelerator.end_training()

    record = stepscope.read_run(tmp_path / "run")
    for name in ("generator", "judge"):
        assert record.scalars(f"{name}/gradient_norm/weight").steps.tolist() == [0, 1, 2, 3]


def test_watching_twice_before_the_first_step_watches_once_and_says_so(tmp_path, caplog):
    accelerator = accelerate.Accelerator(cpu=True, log_with=StepscopeTracker(run=tmp_path / "run", **EVERYTHING))
    model, other = Network(), Network()
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in (model, other)]
    model, other, *optimizers = accelerator.prepare(model, other, *optimizers)
    accelerator.init_trackers("ignored")
    watch(accelerator, model, optimizers[0])
    watch(accelerator, other, optimizers[1])
    for index in (0, 0, 1):
        if index:  # another training, once the first has begun
            watch(accelerator, other, optimizers[1])
        accelerator.backward((model, other)[index](torch.randn(8, 4)).mean())
        optimizers[index].step()
    accelerator.end_training()

    told = [one.message for one in caplog.records if "only the first one is active" in one.message]
    assert told == ["there are 2 calls of watch before the first step; only the first one is active"]
    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == [0, 1, 2]
    assert len(record.texts("stepscope/report")) == 2


def test_the_tracker_works_beside_another_one(tmp_path):
    train(tmp_path / "run", log_with=["stepscope", "tensorboard"], project_dir=str(tmp_path / "events"))

    assert len(stepscope.read_run(tmp_path / "run").scalars("loss").steps) == 6
    assert list((tmp_path / "events").rglob("events.out.tfevents.*"))


def test_without_watching_what_is_logged_counts_by_its_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accelerator = accelerate.Accelerator(cpu=True, log_with="stepscope")
    accelerator.init_trackers("exp1")
    accelerator.log({"accuracy": 0.1})
    accelerator.log({"accuracy": 0.2})
    accelerator.log({"accuracy": 0.3}, step=10)
    accelerator.get_tracker("stepscope", unwrap=True).text("notes", "by the run itself", step=10)
    accelerator.end_training()

    record = stepscope.read_run(tmp_path / "runs" / "exp1")
    assert record.scalars("accuracy").steps.tolist() == [0, 1, 10]
    assert record.texts("notes")[0].text == "by the run itself"


class Broken(Exception):
    pass


def test_what_training_raises_comes_out_unchanged(tmp_path):
    fault = Broken("here")

    def raises(loss):
        raise fault

    with stepscope.open_run(tmp_path / "run") as run, pytest.raises(Broken) as caught:
        train(run, fault=raises)

    assert caught.value is fault
    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == [0, 1]


def test_watching_without_a_tracker_or_an_optimizer_is_refused():
    accelerator = accelerate.Accelerator(cpu=True)
    with pytest.raises(stepscope.SessionError, match='there is no tracker named "stepscope"'):
        watch(accelerator, Network(), torch.optim.SGD(Network().parameters()))
    accelerator.trackers.append(StepscopeTracker("exp1"))
    with pytest.raises(stepscope.SessionError, match="there is no optimizer"):
        watch(accelerator, Network())


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "2.0.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        train(tmp_path / name)
        assert len(stepscope.read_run(tmp_path / name).scalars("loss").steps) == 6
        AcceleratorState._reset_state()

    told = [one for one in caplog.records if one.levelno == logging.WARNING and "2.0.0 is installed" in one.message]
    assert len(told) == 1


@pytest.mark.parametrize("several", [False, True])
def test_prepared_optimizers_are_watched_without_a_tracker(several):
    """Prepared ones wrap those that step, and have no hooks themselves."""

    def loop(watches):
        accelerator = accelerate.Accelerator(cpu=True)
        module = Network()
        parts = (module[0], module[3]) if several else (module,)
        optimizers = [torch.optim.Adam(one.parameters(), lr=0.01) for one in parts]
        model, *optimizers = accelerator.prepare(module, *optimizers)
        session = stepscope.watch(model, optimizers if several else optimizers[0], updates=True) if watches else None
        losses = []
        for _ in range(6):
            inputs = torch.randn(16, 4)
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            accelerator.backward(loss)
            for one in optimizers:
                one.step()
                one.zero_grad()
            losses.append(loss.item())
        return losses, session

    losses, _ = loop(watches=False)
    observed, session = loop(watches=True)
    report = session.close()
    assert observed == losses
    assert session.last_step == 5
    assert report.failures == {}
    assert report.coverage.measured == 6
    assert report.coverage.outside_optimizer == ()


def nan(loss):
    return loss * float("nan")


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_finding_asks_the_loop_to_stop(tmp_path, accumulated):
    given = {"on_finding": {"non_finite_loss": "stop"}}
    settings = {"gradient_accumulation_steps": accumulated}

    _, losses = train(tmp_path / "run", fault=nan, options=given, **settings)

    assert len(losses) == {1: 3, 2: 4}[accumulated]
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_an_exception_of_a_finding_comes_out_of_the_optimizers_step(tmp_path):
    with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
        train(tmp_path / "run", fault=nan, options={"on_finding": {"non_finite_loss": "raise"}})
