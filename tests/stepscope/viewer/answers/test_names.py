"""Names of a run: all at first, then those that have changed."""

import json

import numpy as np
from tracker_adapters.artifacts import MAX_NAME_LENGTH

import stepscope
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


def test_only_what_has_changed_comes_again(tmp_path):
    runs = RunList([tmp_path])
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalars(["a", "<script>", "n" * MAX_NAME_LENGTH], [1.0, 2.0, 3.0], step=0)
        assert run.flush(60)
        runs.look_again()
        key = runs.all()[0].key

        def names(since=""):
            return json.loads(answer(runs, f"names?run={key}&since={since}").body)

        first = names()
        assert [one["name"] for one in first["names"]] == ["<script>", "a", "n" * MAX_NAME_LENGTH]
        assert first["names"][1] == {"name": "a", "kind": "scalar", "count": 1, "last_step": 0, "last_value": 1.0}
        assert names(first["position"])["names"] == []

        run.scalar("a", float("nan"), step=4)
        run.histogram("h", np.ones(2), step=4)
        assert run.flush(60)
        second = names(first["position"])
        assert [(one["name"], one["count"], one["last_step"]) for one in second["names"]] == [("a", 2, 4), ("h", 1, 4)]
        assert second["names"][0]["last_value"] == "NaN"
        with stepscope.read_run(run.path) as record:
            assert [(info.name, info.count) for info in record.names()] == [
                (one["name"], one["count"]) for one in names()["names"]
            ]
    runs.close()


def test_ten_thousand_names_come_at_once(tmp_path):
    names = [f"layer.{number}/weight" for number in range(10_000)]
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalars(names, np.arange(10_000.0), step=0)
    runs = RunList([tmp_path])
    found = json.loads(answer(runs, f"names?run={runs.all()[0].key}").body)
    runs.close()
    assert sorted(one["name"] for one in found["names"]) == sorted(names)
