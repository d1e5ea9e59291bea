"""A run and the sessions that emit into it: through a scope as well, and in any number after each other."""

import gc
import weakref

import pytest
import torch

import stepscope
from stepscope.diagnosing.stored_reports import stored_reports


def network():
    model = torch.nn.Linear(4, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("scope", ["", "D"])
def test_a_run_that_is_closed_ends_its_sessions(tmp_path, scope):
    run = stepscope.open_run(tmp_path / "run", sinks=[])
    model, optimizer = network()
    session = stepscope.watch(model, optimizer, run=run.scoped(scope) if scope else run)
    train(model, optimizer)
    assert run.close()

    assert "stopped" in repr(session)
    assert [report.scope for report in stored_reports(stepscope.read_run(run.path))] == [scope]


@pytest.mark.parametrize("scope", ["", "D"])
def test_a_run_keeps_no_model_alive_whose_session_has_ended(tmp_path, scope):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        model, optimizer = network()
        with stepscope.watch(model, optimizer, run=run.scoped(scope) if scope else run) as session:
            train(model, optimizer)
        kept = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(session)]
        del model, optimizer, session
        gc.collect()

        assert [reference() for reference in kept] == [None] * 3


def test_of_a_scoped_session_only_the_first_rank_prints(tmp_path, capsys):
    for rank in (0, 1):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            model, optimizer = network()
            with stepscope.watch(model, optimizer, run=run.scoped("D")):
                train(model, optimizer)

    assert capsys.readouterr().err.count("Checked: ") == 1


def test_what_fails_as_a_session_ends_stands_before_no_exception_of_the_training(tmp_path, monkeypatch):
    model, optimizer = network()
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        with (
            pytest.raises(KeyError, match="of the training"),
            stepscope.watch(model, optimizer, run=run) as session,
        ):
            train(model, optimizer)
            # As every question to a device that is broken.
            monkeypatch.setattr(session.gradient_debugger, "findings", lambda: 1 / 0)
            raise KeyError("of the training")
        run.flush_store()

        assert [alert.name for alert in stepscope.read_run(run.path).alerts()] == ["session_failure"]


def test_what_fails_as_an_earlier_session_ends_keeps_no_other_from_beginning(monkeypatch, caplog):
    model, optimizer = network()
    earlier = stepscope.watch(model, optimizer)
    monkeypatch.setattr(earlier.gradient_debugger, "findings", lambda: 1 / 0)
    with stepscope.watch(model, optimizer) as session:
        train(model, optimizer)

    assert session.last_step == 2
    assert "could not be closed" in caplog.text
