"""What a user wants done about findings is done once for each kind and step, and hurts no training."""

import json
import logging
import re

import pytest
import torch
from torch import nn
from tracker_adapters.artifacts import Page, Table, Text
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.errors import DebuggerConfigError, FindingError

FAULTY = 4


def train(*, steps=8, faulty=FAULTY, stop=True, watched=False, **options):
    """Trains a model whose gradients are NaN at one step; returns the session and the weights as bytes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = stepscope.watch(model, optimizer, **options) if watched else None
    with session or stepscope.DebugSession(model, optimizer, **options) as session:
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 2)).square().mean() * (torch.nan if step == faulty else 1)
            loss.backward()
            if not watched:
                session.step(loss)
            optimizer.step()
            if stop and session.should_stop:
                break
    return session, [one.detach().numpy().tobytes() for one in model.parameters()]


def test_a_callback_is_called_once_for_each_kind_and_step():
    events = []
    train(on_finding={"non_finite_gradient": events.append})
    (event,) = events
    assert (event.step, event.finding.kind, event.finding.level) == (FAULTY, "non_finite_gradient", "error")
    assert event.finding.name == "0.weight, 0.bias, 2.weight, 2.bias"


def test_the_loop_is_asked_to_stop(caplog):
    session, _ = train(on_finding={"error": "stop"})
    assert session.should_stop
    assert session.last_step == FAULTY
    assert caplog.text.count("the training is asked to stop") == 1


def test_a_healthy_training_lets_nothing_act():
    events = []
    session, _ = train(faulty=None, on_finding={"warning": [events.append, "stop", "raise"]})
    assert not events
    assert not session.should_stop
    assert session.last_step == 7


@pytest.mark.parametrize(("reaction", "expected"), [("raise", FindingError), (FloatingPointError, FloatingPointError)])
@pytest.mark.parametrize("watched", [False, True])
def test_an_exception_is_raised_in_the_loop_when_it_is_asked_for(reaction, expected, watched):
    with pytest.raises(expected, match="non_finite_gradient: "):
        train(on_finding={"non_finite_gradient": reaction}, watched=watched)


def test_an_exception_that_a_finding_asked_for_is_not_looked_at_for_an_operator(caplog):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.randn(8, 2)).square().mean() * (torch.nan if session.last_step == FAULTY - 1 else 1)
        loss.backward()
        return loss

    with (
        pytest.raises(FloatingPointError, match=f"at step {FAULTY}"),
        stepscope.watch(model, optimizer, on_finding={"error": FloatingPointError}) as session,
    ):
        for _ in range(FAULTY + 2):
            optimizer.step(closure)

    assert session.report().first_nans == ()
    assert "the first NaN or infinity" not in caplog.text


@pytest.mark.parametrize("steps", [5, 12])
def test_findings_between_steps_are_acted_on_at_the_next_and_at_the_end(steps):
    torch.manual_seed(0)
    model, events = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_finding={"overfitting": events.append}) as session:
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(torch.ones(4, 2)).square().mean() + 10.0 - step
            loss.backward()
            session.step(loss)
            optimizer.step()
            session.validation(5.0 + step)
    (finding,) = [one for one in session.report().findings if one.kind == "overfitting"]
    assert finding.step == 4
    assert [event.step for event in events] == [min(5, steps - 1)]


def test_findings_about_updates_are_acted_on():
    model, events = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    config = stepscope.DebugConfig(updates=True)
    with stepscope.DebugSession(model, optimizer, config=config, on_finding={"large_update": events.append}) as session:
        for _ in range(6):
            optimizer.zero_grad()
            loss = 0.475 * sum(one.square().sum() for one in model.parameters())  # a step leaves 5 % of them
            loss.backward()
            session.step(loss)
            optimizer.step()
    assert [(event.step, event.finding.step) for event in events] == [(3, 0)]


def test_the_moment_is_saved_as_pages_and_a_table(tmp_path):
    emitter = MemoryEmitter()
    train(run=emitter, on_finding={"non_finite_gradient": ["save_tensor", "snapshot"]})
    kept = [item for item in emitter.artifacts if isinstance(item, (Page, Table))]
    assert {type(item) for item in kept} == {Page, Table}
    assert {item.step for item in kept} == {FAULTY}
    assert sum(isinstance(item, Page) for item in kept) == 4


@pytest.mark.parametrize(
    ("reaction", "steps"), [("measure:3", 3), pytest.param("measure", 100, marks=pytest.mark.slow)]
)
def test_the_coming_steps_are_measured_whatever_the_schedule_says(reaction, steps):
    config = stepscope.DebugConfig(schedule=stepscope.Schedule(steps=[0]), max_overhead=1e-9)
    plain, _ = train(steps=steps + 10, config=config)
    session, _ = train(steps=steps + 10, config=config, on_finding={"error": reaction})
    measured = plain.report().overhead.measured
    assert session.report().overhead.measured == measured + steps


def test_a_finding_is_logged_and_notified_as_json(caplog):
    emitter = MemoryEmitter()
    with caplog.at_level(logging.INFO):
        train(run=emitter, on_finding={"non_finite_gradient": ["log", "notify"]})
    assert caplog.text.count("hook 'on_finding/non_finite_gradient' at step 4: non_finite_gradient: ") == 1
    (text,) = [item for item in emitter.artifacts if isinstance(item, Text) and item.name.startswith("notifications/")]
    content = json.loads(text.text)
    assert (text.name, text.step) == ("notifications/non_finite_gradient", FAULTY)
    assert {"kind", "name", "level", "step", "message", "rule"} <= content.keys()


def test_a_reaction_that_fails_does_not_hurt_the_run():
    def fail(event):
        torch.manual_seed(99)
        raise ValueError("a fault of the callback")

    _, plain = train()
    after = []
    session, watched = train(on_finding={"non_finite_gradient": [fail, after.append]})
    assert watched == plain
    assert len(after) == 1
    assert session.report().failures == {"hook 'on_finding/non_finite_gradient': callback: ValueError": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("stop", "on_finding is 'stop'; expected a mapping"),
        ({"exploding_gradients": "stop"}, "no rule finds 'exploding_gradients'; did you mean 'exploding_gradient'?"),
        ({"errors": "stop"}, "did you mean 'error'?"),
        ({3: "stop"}, "has the key 3"),
        ({"error": "halt"}, "'error' has 'halt'; expected a function, an exception type, 'log'"),
        ({"error": []}, "'error' has no action"),
        ({"error": "measure:0"}, "'error' has 'measure:0'"),
        ({"error": "stop:3"}, "'error' has 'stop:3'"),
        ({"error": KeyboardInterrupt("now")}, "'error' has KeyboardInterrupt"),
    ],
)
def test_what_is_no_reaction_is_refused(given, message):
    with pytest.raises(stepscope.SessionError, match=re.escape(message)):
        train(on_finding=given)


def test_a_kind_that_no_rule_finds_is_told(caplog):
    train(on_finding={"Error": "stop", "exploding_by_depth": "log", "non_finite_loss": "log", "warning": "log"})
    assert [line for line in caplog.messages if "no rule of this session finds" in line] == [
        "on_finding: no rule of this session finds 'Error', so that nothing is done; expected the kind of one of its "
        "findings, such as 'non_finite_loss', or a level: info, warning, error"
    ]


def test_a_run_without_a_webhook_says_that_nobody_is_notified(tmp_path, caplog):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run=run, on_finding={"error": "notify"})
    assert caplog.text.count("the run has no sink 'webhook'") == 1


def test_notifying_needs_a_run():
    with pytest.raises(DebuggerConfigError, match="NOTIFY needs a run"):
        train(on_finding={"error": "notify"})
