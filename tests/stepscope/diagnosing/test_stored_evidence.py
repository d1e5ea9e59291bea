"""A run's store tells the same causes as the session that recorded it, also when the training was killed."""

import contextlib
import json
import math
import os
import signal

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.cli import main
from stepscope.diagnosing.stored_evidence import scopes, stored_evidence


def train(run, *, sick, scope="", steps=40, kill_at=None, first_step=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    emitter = run.scoped(scope) if scope else run
    with stepscope.watch(model, optimizer, run=emitter, first_step=first_step) as session:
        for step in range(steps):
            inputs = torch.randn(32, 8)
            if step == 5 and sick:
                inputs[0, 0] = torch.nan
            loss = (model(inputs) - inputs.nan_to_num().sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == kill_at:
                run.flush_store()
                os.kill(os.getpid(), signal.SIGKILL)
    return session.report()


@pytest.mark.parametrize("sick", [True, False])
def test_the_store_tells_the_causes_of_the_session(tmp_path, sick):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        report = train(run, sick=sick)
    with stepscope.read_run(tmp_path / "run") as record:
        causes = diagnose(stored_evidence(record))
    assert [cause.code for cause in causes] == [cause.code for cause in report.causes]
    assert [cause.since_step for cause in causes] == [cause.since_step for cause in report.causes]
    assert [cause.code for cause in causes][:1] == (["non_finite_inputs"] if sick else [])


@pytest.mark.parametrize("sick", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("resumed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_last_of_several_sessions_is_told_without_those_before(tmp_path, sick, resumed):
    """What was wrong with an attempt is mended in the next one, or comes only with it."""
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, sick=not sick)
        report = None if resumed else train(run, sick=sick)
    if resumed:
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
            report = train(run, sick=sick)
    with stepscope.read_run(tmp_path / "run") as record:
        evidence = stored_evidence(record)
    causes = diagnose(evidence)
    assert [(cause.code, cause.since_step) for cause in causes] == [
        (cause.code, cause.since_step) for cause in report.causes
    ]
    assert [cause.code for cause in causes][:1] == (["non_finite_inputs"] if sick else [])
    assert (int(evidence["loss"].steps[0]), evidence.facts.last_step) == (40, 79)
    assert {finding.kind for finding in evidence.findings} == {finding.kind for finding in report.findings}


@pytest.mark.parametrize("resumed", [True, False])
def test_a_restart_from_a_checkpoint_has_nothing_of_the_steps_that_it_repeats(tmp_path, resumed):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, sick=True)
        report = None if resumed else train(run, sick=False, first_step=2, steps=60)
    if resumed:
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
            report = train(run, sick=False, first_step=2, steps=60)
    with stepscope.read_run(tmp_path / "run") as record:
        evidence = stored_evidence(record)
    assert report.causes == diagnose(evidence) == ()
    assert {finding.kind for finding in evidence.findings} == {finding.kind for finding in report.findings}
    assert (int(evidence["loss"].steps[0]), evidence.facts.last_step) == (2, 61)


def test_a_training_that_was_killed_is_diagnosed(tmp_path):
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # a fork has none of the threads that torch has started
            train(stepscope.open_run(tmp_path / "run", sinks=[]), sick=True, kill_at=20)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    result = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")])
    assert result.exit_code == 0
    assert result.output.startswith("1. The inputs hold NaN or infinities, since step 5 (non_finite_inputs")
    assert "The run was not closed as usual: its process was killed" in " ".join(result.output.split())


@pytest.mark.parametrize(("ends", "told"), [
    (ValueError("the disk is full"), "The training ended with: ValueError: the disk is full"), (None, None),
])  # fmt: skip
def test_the_exception_that_ended_a_training_is_told(tmp_path, ends, told):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        contextlib.suppress(ValueError),
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run),
    ):
        for step in range(30):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()
            optimizer.step()
            if step == 20 and ends is not None:
                raise ends
    lines = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")]).output.splitlines()
    assert [line for line in lines if "ended with" in line or "not closed" in line] == ([told] if told else [])
    found = json.loads(CliRunner().invoke(main, ["diagnose", "--json", str(tmp_path / "run")]).output)
    assert (found["status"], found["error"]) == (
        ("failed", "ValueError: the disk is full") if ends else ("finished", "")
    )


def test_what_was_not_checked_is_known_while_a_training_goes_on(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        for _ in range(60):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.randn(32, 4)), torch.randint(3, (32,))).backward()
            optimizer.step()
        session.validation(math.nan)
        run.flush_store()
        with stepscope.read_run(tmp_path / "run") as record:
            found = stored_evidence(record).unchecked
    assert "after 50 steps, 2 of 4 parameters are frozen (0.weight, 0.bias)" in found
    assert "the validation loss was NaN or infinite at the one validation" in found
    with stepscope.read_run(tmp_path / "run") as record:
        assert stored_evidence(record).unchecked == session.report().coverage.gaps


def test_sessions_of_several_scopes_are_told_apart(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, sick=True, scope="D")
        train(run, sick=False, scope="G")
    with stepscope.read_run(tmp_path / "run") as record:
        assert scopes(record) == ["D", "G"]
        found = {scope: [cause.code for cause in diagnose(stored_evidence(record, scope))] for scope in scopes(record)}
    assert found["D"][0] == "non_finite_inputs"
    assert found["G"] == []


def test_a_run_without_a_session_has_no_cause_and_says_what_it_saw(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(20):
            run.scalar("loss", 1 / (step + 1), step=step)
    result = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")])
    assert result.exit_code == 0
    assert result.output.startswith("No cause found in 20 steps.")


def test_a_run_without_a_step_is_not_said_to_have_no_cause(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        model = torch.nn.Linear(2, 1)
        stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), run=run).close()
    result = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")])
    assert (result.exit_code, result.output) == (0, "Nothing to diagnose: no step is stored.\n")


def test_ranks_whose_weights_differ_are_told(tmp_path, monkeypatch):
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=rank > 0) as run:
            for step in range(10):
                run.scalar("loss", 1.0, step=step)
                run.scalar("diagnosis/weight_checksum", np.pi + (rank and step >= 4), step=step)
    with stepscope.read_run(tmp_path / "run") as record:
        (cause,) = diagnose(stored_evidence(record))
    assert (cause.code, cause.since_step) == ("rank_desync", 4)
