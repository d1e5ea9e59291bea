"""A loop may call ``session.step`` after ``optimizer.step``: its trainings are measured and diagnosed alike."""

import logging

import numpy as np
import pytest
import torch
from digits_data import digits_data
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stepscope.errors import SessionError

WHERE = ("before", "after")
TIMES = ("step_ms", "data_share", "_mb", "system/")
"""Of what is measured, what differs from run to run."""


def network(*, sizes=(8, 16, 1), bias=0.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))
    with torch.no_grad():
        model[0].bias += bias
    return model


def data():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(512, 8, generator=generator)
    weights = torch.randn(8, 1, generator=generator)
    return inputs, inputs @ weights + 0.1 * torch.randn(512, 1, generator=generator)


def train(session, model, optimizer, *, where, steps=60, zeroes=True, closure=False, tells=None, scale=1.0):
    """Trains with mean squared errors; the losses that it returns are told, times ``scale``."""
    inputs, targets = data()
    generator, losses = torch.Generator().manual_seed(2), []
    for number in range(steps):
        rows = torch.randint(512, (32,), generator=generator)
        outputs = []

        def compute(rows=rows, outputs=outputs):
            if zeroes:
                optimizer.zero_grad()
            outputs.append(model(inputs[rows]))
            loss = mse_loss(outputs[-1], targets[rows])
            loss.backward()
            return loss

        loss = None if closure else compute()
        told = (lambda value: None) if session is None else (
            lambda value, rows=rows, outputs=outputs: session.step(
                scale * value, inputs=inputs[rows], outputs=outputs[0], targets=targets[rows], metrics={"rows": 32}
            )
        )  # fmt: skip
        place = where if tells is None else tells(number)
        if place == "before":
            told(loss)
        loss = optimizer.step(compute) if closure else (optimizer.step(), loss)[1]
        losses.append(scale * loss.item())
        if place == "after":
            told(loss)
    return losses


def recorded(folder):
    """The scalars of a run that do not differ from time to time, by name."""
    record = stepscope.read_run(folder)
    names = [
        info.name for info in record.names() if info.kind == "scalar" and not any(part in info.name for part in TIMES)
    ]
    return {name: record.scalars(name) for name in names}


def watched(folder, make, *, where, config="full", **options):
    model = network()
    optimizer = make(model.parameters())
    with (
        stepscope.open_run(folder, sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, config=config, max_overhead=None) as session,
    ):
        losses = train(session, model, optimizer, where=where, **options)
    assert session.report().failures == {}
    return losses, recorded(folder), session, list(model.parameters())


@pytest.mark.parametrize("scale", [pytest.param(1.0, marks=pytest.mark.slow), 3.0])
def test_what_is_recorded_is_the_same_before_and_after(tmp_path, caplog, scale):
    found = {
        where: watched(tmp_path / where, lambda held: torch.optim.SGD(held, 0.05), where=where, scale=scale)
        for where in WHERE
    }
    (_, before, *_), (losses, after, session, parameters) = found.values()
    assert sorted(before) == sorted(after)
    for name, series in before.items():
        assert series.steps.tolist() == after[name].steps.tolist(), name
        np.testing.assert_array_equal(series.values, after[name].values, err_msg=name)
    assert after["loss"].values.tolist() == pytest.approx(losses)
    assert session.report().overhead.steps == 60
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    checked = {one.name: one.checked for one in session.evidence().facts.invariants}
    assert checked["gradients_zeroed"] == 59
    assert session.evidence().facts == found["before"][2].evidence().facts

    plain = network()
    train(None, plain, torch.optim.SGD(plain.parameters(), 0.05), where="nowhere")
    assert all(map(torch.equal, plain.parameters(), parameters))


def test_times_are_recorded_as_often(tmp_path):
    names = {}
    for where in WHERE:
        watched(tmp_path / where, lambda held: torch.optim.SGD(held, 0.05), where=where, steps=20)
        record = stepscope.read_run(tmp_path / where)
        names[where] = {
            info.name: record.scalars(info.name).steps.tolist()
            for info in record.names()
            if info.name in ("step_ms", "diagnosis/data_share")
        }
    assert names["before"]["step_ms"] == names["after"]["step_ms"] == list(range(20))
    # A step that took no longer than its measuring has no share: on a busy machine that may be most of them.
    assert set(names["after"]["diagnosis/data_share"]) - {0}


def test_a_closure_of_lbfgs_is_told_after_its_step(tmp_path, caplog):
    losses, found, session, parameters = watched(
        tmp_path / "run", lambda held: torch.optim.LBFGS(held, 0.5, max_iter=4), where="after", closure=True, steps=12
    )
    assert session.report().overhead.steps == 12
    for name in ("loss", "gradient_norm/0.weight", "rows"):
        assert found[name].steps.tolist() == list(range(12))
    assert found["loss"].values.tolist() == pytest.approx(losses)
    for name in ("diagnosis/output_std/0", "diagnosis/targets/std", "diagnosis/dead_units/0"):
        assert len(found[name]) == len(found["diagnosis/inputs/std"]) > 8
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    plain = network()
    train(None, plain, torch.optim.LBFGS(plain.parameters(), 0.5, max_iter=4), where="", closure=True, steps=12)
    assert all(map(torch.equal, plain.parameters(), parameters))


def classify(*, where, rate=0.1, bias=0.0, zeroes=True, closure=False, steps=120):
    """Trains a classifier of digits that may be sick, and returns its session."""
    inputs, targets = (torch.tensor(values) for values in digits_data())
    inputs, generator = inputs.float() / 16, torch.Generator().manual_seed(0)
    model = network(sizes=(64, 64, 10), bias=bias)
    optimizer = torch.optim.SGD(model.parameters(), rate)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(steps):
            rows = torch.randint(len(inputs), (64,), generator=generator)

            def compute(rows=rows):
                if zeroes:
                    optimizer.zero_grad()
                loss = cross_entropy(model(inputs[rows]), targets[rows])
                loss.backward()
                return loss

            loss = None if closure else compute()
            if where == "before":
                session.step(loss, inputs=inputs[rows], targets=targets[rows])
            loss = optimizer.step(compute) if closure else (optimizer.step(), loss)[1]
            if where == "after":
                session.step(loss, inputs=inputs[rows], targets=targets[rows])
    return session


@pytest.mark.parametrize(
    ("sick", "code"),
    [
        pytest.param({}, None, marks=pytest.mark.slow),
        pytest.param({"rate": 30.0}, "learning_rate_too_high", marks=pytest.mark.slow),
        pytest.param({"bias": -30.0}, "dead_units", marks=pytest.mark.slow),
        ({"zeroes": False}, "gradients_not_zeroed"),
    ],
)
def test_a_sick_training_has_the_same_cause(sick, code):
    causes = {}
    for where in WHERE:
        session = classify(where=where, **sick)
        assert session.last_step == 119
        causes[where] = [(one.code, one.since_step) for one in session.report().causes]
    assert causes["before"] == causes["after"]
    assert [one for one, _ in causes["after"][:1]] == ([] if code is None else [code])


@pytest.mark.slow
def test_a_closure_that_zeroes_no_gradients_is_found_when_told_after():
    session = classify(where="after", zeroes=False, closure=True)
    assert session.report().causes[0].code == "gradients_not_zeroed"
    assert session.last_step == 119


def losses_of(emitter):
    return [(one.step, one.value) for one in emitter.artifacts if one.name == "loss"]


@pytest.mark.parametrize(
    "tells",
    [
        pytest.param(lambda number: "after" if number % 3 else "before", marks=pytest.mark.slow),
        pytest.param(lambda number: "after" if number % 10 == 9 else "", marks=pytest.mark.slow),
        pytest.param(lambda number: "before" if number % 10 == 9 else "", marks=pytest.mark.slow),
        lambda number: ("before", "after", "")[number % 3],
        pytest.param(lambda number: "before" if number < 10 else "after", marks=pytest.mark.slow),
        pytest.param(lambda number: "after" if number < 10 else "before", marks=pytest.mark.slow),
    ],
)
def test_a_loop_that_changes_its_mind_has_each_step_once(tells, caplog):
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter, max_overhead=None) as session:
        losses = train(session, model, optimizer, where="", steps=40, tells=tells)
    assert losses_of(emitter) == [(step, pytest.approx(loss)) for step, loss in enumerate(losses)]
    assert [one.step for one in emitter.artifacts if one.name == "rows"] == [
        number for number in range(40) if tells(number)
    ]
    assert session.report().overhead.steps == 40
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def loop(session, model, optimizer, *, steps, after):
    for number in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 8)).square().mean()
        loss.backward()
        optimizer.step()
        after(number, loss)


@pytest.mark.parametrize("diagnosis", [True, False])
def test_two_calls_for_one_step_belong_to_it(diagnosis):
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    with stepscope.watch(model, optimizer, run=emitter, diagnosis=diagnosis) as session:

        def twice(number, loss):
            losses.append((number, loss.item()))
            session.step(loss)
            with session.paused(), torch.no_grad():
                error = model(torch.ones(4, 8)).abs().mean()
            session.step(metrics={"error": error})

        loop(session, model, optimizer, steps=5, after=twice)
    assert losses_of(emitter) == losses
    assert [one.step for one in emitter.artifacts if one.name == "error"] == list(range(5))
    assert session.last_step == 4


def test_a_step_told_before_and_again_after_is_one():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter) as session:
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 8)).square().mean()
            loss.backward()
            session.step(loss)
            optimizer.step()
            session.step(metrics={"norm": model[0].weight.norm()})
    assert [step for step, _ in losses_of(emitter)] == list(range(5))
    assert [one.step for one in emitter.artifacts if one.name == "norm"] == list(range(5))
    assert session.report().overhead.steps == 5


def test_a_loss_that_no_pass_shows_is_the_one_that_is_told(caplog):
    """As where the gradients are computed by ``torch.autograd.grad``: also a NaN among them is found."""
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter) as session:
        for number in range(6):
            loss = model(torch.randn(16, 8)).square().mean()
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            session.step(float("nan") if number == 4 else loss)
    assert [step for step, _ in losses_of(emitter)] == list(range(6))
    assert [(one.kind, one.step) for one in session.report().findings if one.kind == "non_finite_loss"] == [
        ("non_finite_loss", 4)
    ]
    assert "steps was not seen" not in session.report().summary()


@pytest.mark.parametrize(("first", "stride"), [(0, 1), (1, 1), (1000, 1), (0, 10)])
def test_the_loop_numbers_its_steps(first, stride, caplog):
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter, max_overhead=None) as session:
        loop(
            session, model, optimizer, steps=5,
            after=lambda number, loss: session.step(loss, step=first + stride * number),
        )  # fmt: skip
    numbers = [first + stride * number for number in range(5)]
    numbers[0] = 0  # the first was counted before it had a number
    if stride > 1:
        numbers[1] = 1  # and the second before it was known that they go by tens
    assert [step for step, _ in losses_of(emitter)] == numbers
    assert [one.step for one in emitter.artifacts if one.name == "total_norm/gradients"] == numbers
    warnings = [one.getMessage() for one in caplog.records if "first_step" in one.getMessage()]
    assert len(warnings) == (numbers != list(range(5)))


def test_a_resumed_run_goes_on(tmp_path):
    for resume in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        with (
            stepscope.open_run(tmp_path / "run", sinks=[], resume=resume) as run,
            stepscope.watch(model, optimizer, run=run, max_overhead=None) as session,
        ):
            loop(session, model, optimizer, steps=4, after=lambda number, loss: session.step(loss))
    assert stepscope.read_run(tmp_path / "run").scalars("loss").steps.tolist() == list(range(8))


def test_a_replay_that_comes_too_late_is_said_once_and_not_called(caplog):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    def replay():
        raise AssertionError

    with stepscope.watch(model, optimizer) as session:
        loop(session, model, optimizer, steps=3, after=lambda number, loss: session.step(float("nan"), replay=replay))
    assert [one.getMessage()[:30] for one in caplog.records if "replay" in one.getMessage()] == [
        "session.step(replay=…) was cal"
    ]
    assert session.report().failures == {}


def test_wrong_arguments_are_told_and_leave_the_step_as_it_was():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter) as session:

        def wrongly(number, loss):
            with pytest.raises(stepscope.ArtifactError, match="'loss'"):
                session.step("high")
            with pytest.raises(stepscope.ArtifactError, match="step"):
                session.step(loss, step=-1)
            with pytest.raises(SessionError, match="inputs is 3"):
                session.step(loss, inputs=3)
            with pytest.raises(TypeError, match="'los'"):
                session.step(los=loss)

        loop(session, model, optimizer, steps=3, after=wrongly)
    assert [step for step, _ in losses_of(emitter)] == [0, 1, 2]
    assert session.last_step == 2


def test_a_report_in_between_has_the_step_and_its_loss_once():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter) as session:

        def look(number, loss):
            assert session.evidence().series["loss"].steps.tolist() == list(range(number + 1))
            session.step(loss)

        loop(session, model, optimizer, steps=3, after=look)
    assert [step for step, _ in losses_of(emitter)] == [0, 1, 2]


def test_an_action_upon_what_is_told_comes_with_the_next_step():
    model, seen = network(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    actions = {"non_finite_loss": lambda event: seen.append((event.step, number_now[0]))}
    number_now = [0]
    with stepscope.watch(model, optimizer, on_finding=actions) as session:

        def after(number, loss):
            session.step(float("nan") if number == 2 else loss)
            number_now[0] = number + 1

        loop(session, model, optimizer, steps=5, after=after)
    assert [now for _, now in seen] == [3]


def test_a_loss_that_comes_too_late_for_its_step_is_said_once(caplog):
    model, emitter, losses = network(), MemoryEmitter(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with stepscope.watch(model, optimizer, run=emitter) as session:

        def after(number, loss):
            losses.append(loss.item() if number < 4 else 2 * loss.item())
            if number >= 3:
                session.step(2 * loss)

        loop(session, model, optimizer, steps=6, after=after)
    assert losses_of(emitter) == [(step, pytest.approx(loss)) for step, loss in enumerate(losses)]
    (warning,) = [one.getMessage() for one in caplog.records]
    assert f"step 3 has the loss {losses[3]:.6g} already" in warning
