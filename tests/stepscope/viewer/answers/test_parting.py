"""Where two runs part."""

import json

import numpy as np
import pytest

import stepscope
from stepscope.viewer.answers.answer import BadRequest
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


def record_run(folder, lr, parts_at=None, scope="", seed=0):
    noise = np.random.default_rng(seed).normal(0, 0.01, 100)
    with stepscope.open_run(folder, sinks=[], config={"lr": lr, "batch": 8}) as run:
        session = run.scoped(scope) if scope else run
        for step in range(100):
            away = 0.0 if parts_at is None or step < parts_at else 1.0
            session.scalar("total_norm/gradients", 1.0 + noise[step] + away, step=step)
            session.scalar("loss", 3.0 - step / 100 + noise[step] + away, step=step)
            session.scalar("diagnosis/gradient_rms/fc1.weight", 0.1 + noise[step], step=step)
            run.scalar("mine/reward", noise[step] + away, step=step)
    return folder


def asked(folder):
    runs = RunList([folder])
    first, second = sorted(runs.all(), key=lambda run: run.shown)
    return json.loads(answer(runs, f"parting?a={first.key}&b={second.key}").body)


def test_settings_and_series_that_differ_come_with_their_first_steps(tmp_path):
    record_run(tmp_path / "a", 0.1)
    record_run(tmp_path / "b", 0.2, parts_at=40)
    found = asked(tmp_path)
    assert found["config"] == [{"name": "lr", "first": 0.1, "second": 0.2}]
    [session] = found["sessions"]
    assert {one["name"] for one in session["series"]} == {"loss", "total_norm/gradients"}
    assert {one["since_step"] for one in session["series"]} == {40}
    assert {one["beyond_noise"] for one in session["series"]} == {40}
    assert session["series"][0]["names"] == [session["series"][0]["name"]] * 2
    assert session["compared"] == 3
    assert "since step 40" in session["text"]
    # What no session looks at is compared too, once.
    assert [(one["name"], one["since_step"]) for one in found["others"]["series"]] == [("mine/reward", 40)]
    assert found["others"]["compared"] == 1


def test_of_runs_that_share_no_rank_the_lowest_are_compared(tmp_path, monkeypatch):
    record_run(tmp_path / "a", 0.1)
    monkeypatch.setenv("RANK", "1")
    record_run(tmp_path / "b", 0.1, parts_at=40)
    found = asked(tmp_path)
    assert found["ranks"] == [0, 1]
    assert {one["since_step"] for one in found["sessions"][0]["series"]} == {40}
    assert found["others"]["compared"] == 1


def test_equal_runs_part_nowhere(tmp_path):
    record_run(tmp_path / "a", 0.1)
    record_run(tmp_path / "b", 0.1)
    found = asked(tmp_path)
    assert found["config"] == found["sessions"][0]["series"] == found["others"]["series"] == []


def test_links_lead_to_the_names_in_each_run_whatever_their_scope_is(tmp_path):
    record_run(tmp_path / "a", 0.1, scope="D")
    record_run(tmp_path / "b", 0.1, seed=1)
    [session] = asked(tmp_path)["sessions"]
    names = {one["name"]: one["names"] for one in session["series"]}
    assert names["loss"] == ["D/loss", "loss"]
    assert names["gradient_rms/fc1.weight"] == [
        "D/diagnosis/gradient_rms/fc1.weight",
        "diagnosis/gradient_rms/fc1.weight",
    ]


def test_one_run_twice_is_refused(tmp_path):
    runs = RunList([record_run(tmp_path / "a", 0.1)])
    [run] = runs.all()
    with pytest.raises(BadRequest, match=r"a and b are both .*; expected two runs"):
        answer(runs, f"parting?a={run.key}&b={run.key}")
