"""What runs are compared by."""

import json
import math

import pytest

import stepscope
from stepscope.viewer.answers.answer import BadRequest
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList

HOSTILE = '</script><img src=x onerror="alert(1)">'


@pytest.fixture
def runs(tmp_path):
    for number, lr in enumerate((0.1, 0.01)):
        config = {"optimizer": {"lr": lr}, "batch_size": 32} | ({HOSTILE: HOSTILE} if number else {})
        with stepscope.open_run(tmp_path / f"run{number}", sinks=[], config=config, tags=["sweep"]) as run:
            for step in range(60):
                loss = (60 - step) * lr if step < 50 or number else math.nan
                run.scalar("loss", loss, step=step)
                run.scalar("validation/accuracy", step / 60, step=step)
                run.scalar("gradient_norm/fc1.weight", 1.0, step=step)
                run.scalar("total_norm/gradients", 1.0, step=step)
            if number:
                run.scalar(HOSTILE, 1.0, step=0)
    return RunList([tmp_path])


def asked(runs, address):
    return json.loads(answer(runs, address).body)


def keys(runs):
    return {run.head().manifest.info.name: run.key for run in runs.all()}


def test_a_row_has_configuration_and_metrics_with_their_extremes(runs):
    found = asked(runs, f"compare?runs={','.join(keys(runs).values())}")["runs"]
    first, second = sorted(found, key=lambda row: row["name"])
    assert first["config"] == {"optimizer.lr": 0.1, "batch_size": 32}
    assert second["config"][HOSTILE] == HOSTILE
    assert (first["name"], first["status"], first["tags"], first["last_step"]) == ("run0", "finished", ["sweep"], 59)
    loss = first["metrics"]["loss"]
    assert (loss["last"], loss["step"], loss["not_finite"]) == ("NaN", 59, 10)
    assert (loss["lowest"], loss["lowest_step"]) == (pytest.approx(1.1), 49)
    assert (loss["highest"], loss["highest_step"]) == (pytest.approx(6.0), 0)
    assert list(second["metrics"])[:2] == ["loss", "validation/accuracy"]
    assert HOSTILE in second["metrics"]
    # What is of single tensors is offered, not shown.
    assert "gradient_norm/fc1.weight" not in first["metrics"]
    assert "gradient_norm/fc1.weight" in first["names"]


def test_a_value_at_a_step_is_the_last_one_until_then(runs):
    key = keys(runs)["run1"]
    metrics = asked(runs, f"compare?runs={key}&metrics=loss%0Agradient_norm/fc1.weight%0Anone&at=20.5")["runs"][0][
        "metrics"
    ]
    assert sorted(metrics) == ["gradient_norm/fc1.weight", "loss"]
    assert (metrics["loss"]["at"], metrics["loss"]["at_step"]) == (pytest.approx(0.4), 20)
    before = asked(runs, f"compare?runs={key}&metrics=loss&at=-1")["runs"][0]["metrics"]["loss"]
    assert "at" not in before


@pytest.mark.parametrize("at", ["inf", "1e999", "-inf", "nan"])
def test_a_value_is_not_asked_for_at_infinity(runs, at):
    with pytest.raises(BadRequest, match=r"at is .*; expected a number"):
        answer(runs, f"compare?runs={keys(runs)['run0']}&at={at}")


def test_long_series_have_their_extremes_from_the_roll_ups(runs, monkeypatch):
    monkeypatch.setattr("stepscope.viewer.answers.compare.MOST_VALUES", 10)
    metrics = asked(runs, f"compare?runs={keys(runs)['run0']}&metrics=loss")["runs"][0]["metrics"]
    assert (metrics["loss"]["lowest"], metrics["loss"]["highest"]) == (pytest.approx(1.1), pytest.approx(6.0))


def test_causes_are_those_of_the_stored_evidence(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(60):
            run.scalar("loss", math.nan if step > 30 else 1.0 + step, step=step)
            run.scalar("total_norm/gradients", math.inf if step > 30 else 10.0**step, step=step)
            run.scalar("learning_rate", 10.0, step=step)
            run.scalar("diagnosis/update_ratio", 5.0, step=step)
    runs = RunList([tmp_path])
    causes = asked(runs, f"causes?run={keys(runs)['run']}")["causes"]
    with stepscope.read_run(tmp_path / "run") as record:
        from debuggers.diagnosis.rules.diagnose import diagnose
        from stepscope.diagnosing.stored_evidence import stored_evidence

        expected = diagnose(stored_evidence(record))
    assert expected
    assert [one["code"] for one in causes] == [one.code for one in expected]
    assert {"title", "confidence", "since_step", "scope"} < causes[0].keys()


def test_an_empty_run_has_a_row(tmp_path):
    with stepscope.open_run(tmp_path / "empty", sinks=[]):
        pass
    runs = RunList([tmp_path])
    row = asked(runs, f"compare?runs={keys(runs)['empty']}")["runs"][0]
    assert (row["metrics"], row["config"], row["last_step"], row["verdict"]) == ({}, {}, None, "")


def test_the_seconds_of_a_runs_machine_are_no_steps(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=7)
        run.scalar("system/memory_used", 1.0, step=3600)
    runs = RunList([tmp_path])
    assert asked(runs, f"compare?runs={keys(runs)['run']}")["runs"][0]["last_step"] == 7
