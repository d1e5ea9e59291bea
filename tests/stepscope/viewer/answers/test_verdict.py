"""The verdict of a run: what each session found, with the names of what shows it, and what can be said so far."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from observed_runs import Asked, train

import stepscope
from stepscope.viewer.answers.answer import NotFound

KILLED = """
import os, signal, sys
import stepscope
from observed_runs import train
run = stepscope.open_run(sys.argv[1], sinks=[])
train(run, nan_at=5)
run.flush_store()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_sick_run_has_a_cause_with_series_that_exist(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, nan_at=5)
    asked = Asked(tmp_path)
    verdict = asked.json("verdict")

    assert verdict["state"] == "bad"
    assert verdict["causes"][0]["code"] == "non_finite_inputs" and verdict["causes"][0]["since_step"] == 5
    assert verdict["causes"] == verdict["sessions"][0]["causes"]
    names = {info["name"] for info in asked.json("names")["names"]}
    session = verdict["sessions"][0]
    shown = [
        name
        for one in (*session["causes"], session)
        for series in one.get("series", one.get("glance"))
        for name in series["names"]
    ]
    assert shown and set(shown) <= names
    words = {(area["state"], area["word"]) for area in session["areas"]}
    assert words >= {("bad", "problem"), ("good", "ok")}
    assert [finding["step"] for finding in session["findings"]] == sorted(one["step"] for one in session["findings"])
    assert session["measured"] and session["cost"] and session["text"]


def test_a_healthy_run_is_called_healthy_with_its_coverage(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run)
        run.alert("lunch", "the cook calls", step=3, level="info")
    verdict = Asked(tmp_path).json("verdict")

    assert (verdict["state"], verdict["causes"]) == ("good", [])
    assert any("Checked" in line for line in verdict["sessions"][0]["measured"])
    assert [alert["name"] for alert in verdict["alerts"]] == ["lunch"]


@pytest.mark.parametrize(("layers", "more"), [(1, 0), (2, 0), (4, 3)])
def test_findings_of_a_run_that_lives_name_the_tensors_that_their_alert_names(tmp_path, layers, more):
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = [name for name, _ in model.named_parameters()]
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        for value in (1.0, float("nan")):
            model(torch.full((4, 3), value)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        session.report()  # waits for what is still being measured
        run.flush_store()
        findings = Asked(tmp_path).json("verdict")["sessions"][0]["findings"]
    (finding,) = (one for one in findings if one["kind"] == "non_finite_gradient")
    assert (finding["tensors"], finding["more_tensors"]) == (names[: len(names) - more], more)
    (finding,) = (one for one in findings if one["kind"] == "non_finite_loss")
    assert (finding["tensors"], finding["more_tensors"]) == ([], 0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_without_a_session_is_never_called_healthy(tmp_path, ranks):
    for rank in range(ranks):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank, resume=rank > 0) as run:
            run.scalar("loss", 1.0, step=0)
    session = Asked(tmp_path).json("verdict")["sessions"][0]

    assert (session["state"], session["observed"]) == ("", False)
    assert "no session has observed this training" in session["verdict"]


def test_alerts_of_a_training_that_nothing_observed_are_its_headline(tmp_path):
    for rank in (0, 1):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            run.scalar("loss", 1.0, step=0)
            if rank:
                run.alert("disk", "it is hot", step=4, level="warning")
                run.alert("data/broken", "batch 7:\n 3 images cannot be read.", step=5, level="error")
            else:
                run.alert("lunch", "the cook calls", step=3, level="info")
    verdict = Asked(tmp_path).json("verdict")

    assert (verdict["state"], [one["rank"] for one in verdict["sessions"]]) == ("bad", [1, 0])
    assert verdict["verdict"] == (
        "1 error and 1 warning alerted, the first at step 5: data/broken: batch 7: 3 images cannot be read. "
        "No session has observed this training: nothing else can be said."
    )
    assert verdict["sessions"][1]["state"] == ""


def test_each_scope_has_its_own_and_the_worst_comes_first(tmp_path):
    with stepscope.open_run(tmp_path / "gan", sinks=[]) as run:
        train(run.scoped("G"))
        train(run.scoped("D"), nan_at=5)
    asked = Asked(tmp_path)
    verdict = asked.json("verdict")

    assert verdict["scopes"] == ["D", "G"]
    assert [(one["scope"], one["state"]) for one in verdict["sessions"]] == [("D", "bad"), ("G", "good")]
    assert all(name.startswith("D/") for cause in verdict["causes"] for one in cause["series"] for name in one["names"])
    assert asked.json("verdict", scope="G")["state"] == "good"
    with pytest.raises(NotFound, match="'E'; expected one of 'D', 'G'"):
        asked.json("verdict", scope="E")


def test_a_run_that_lives_says_what_can_be_said_so_far(tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.viewer.answers.recent.EVERY_S", 3600.0)  # however busy the machine is
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, nan_at=5, steps=5)
        run.flush_store()
        asked = Asked(tmp_path)
        first = asked.json("verdict")
        train(run, nan_at=0)
        run.flush_store()
        again = asked.json("verdict")
    assert first["live"] and first["sessions"][0]["left_out"][0] == "The training is running still."
    # For a while what was said before is good enough; at the end it is not.
    assert (again["position"], again["behind"], first["behind"]) == (first["position"], True, False)
    last = asked.json("verdict")
    assert (last["causes"][0]["code"], last["behind"]) == ("non_finite_inputs", False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "told", "headline"),
    [
        (stepscope.Schedule(), "measured at all 60 steps so far.", ""),
        (
            stepscope.Schedule(every=10),
            "measured at 6 of 60 steps so far.",
            ", individual parameters were measured at 6 of 60 steps",
        ),
        (
            stepscope.Schedule(end=10),
            "measured at 10 of 60 steps so far, the last at step 9, 50 steps ago: measuring pauses, to limit the "
            "overhead or as its schedule says.",
            ", individual parameters were measured at 10 of 60 steps, last at step 9",
        ),
    ],
)
def test_a_run_that_lives_says_when_measuring_pauses(tmp_path, schedule, told, headline):
    config = stepscope.DebugConfig(schedule=schedule, max_overhead=None)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with stepscope.watch(model, optimizer, run=run.scoped("G"), config=config):
            for _ in range(60):
                optimizer.zero_grad()
                inputs = torch.randn(8, 4)
                (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            run.flush(30)
            session = Asked(tmp_path).json("verdict")["sessions"][0]
        assert session["measured"][-1] == f"Individual parameters were {told}"
        assert session["verdict"].endswith(f"{headline}.")
        assert ("were measured" in session["verdict"]) is bool(headline)


@pytest.mark.slow
@pytest.mark.parametrize("again_from", [0, 30])
def test_a_resumed_run_claims_no_more_measured_steps_than_it_has(tmp_path, again_from):
    for is_again in (False, True):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=is_again) as run:
            model = torch.nn.Linear(4, 1)
            with stepscope.DebugSession(model, run=run) as watching:
                for step in range(again_from * is_again, again_from * is_again + 30):
                    model.zero_grad()
                    loss = model(torch.randn(8, 4)).square().mean()
                    loss.backward()
                    watching.step(loss, step=step)
                run.flush(30)
                if is_again:
                    session = Asked(tmp_path).json("verdict")["sessions"][0]
                    assert session["measured"][-1] == "Individual parameters were measured at all 30 steps so far."


@pytest.mark.slow
def test_a_run_that_was_killed_is_diagnosed_from_what_it_stored(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "run")], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    verdict = Asked(tmp_path).json("verdict")

    assert verdict["causes"][0]["code"] == "non_finite_inputs" and not verdict["live"]
    assert "The run ended without success: it failed, or was killed." in verdict["sessions"][0]["left_out"]
