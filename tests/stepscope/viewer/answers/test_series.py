"""A scalar as a page gets it: points or ranges, a part of the steps, and only what is new."""

import csv
import math
from contextlib import closing

import numpy as np
import pytest
from answer_columns import columns_of

import stepscope
from stepscope.viewer.answers import long_series
from stepscope.viewer.answers.answer import AnswerError, BadRequest, NotFound
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


@pytest.fixture
def run(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(3000):
            run.scalar("loss", {100: math.nan, 2000: math.inf}.get(step, math.sin(step)), step=step)
        run.scalar("<b>", 1.0, step=0)
        assert run.flush(60)
        yield run


@pytest.fixture
def runs(run, tmp_path):
    runs = RunList([tmp_path / "run"])
    yield runs
    runs.close()


def asked(runs, **parameters):
    """The answer about the first run."""
    parameters = {"run": runs.all()[0].key, "name": "loss"} | parameters
    return columns_of(answer(runs, "series?" + "&".join(f"{name}={value}" for name, value in parameters.items())).body)


def test_few_values_are_points_and_many_are_ranges(runs):
    meta, points = asked(runs, width=2000)
    assert (meta["form"], meta["whole"], meta["count"]) == ("points", True, 3000)
    assert points["step"].tolist() == list(range(3000))
    assert np.isnan(points["value"][100])
    assert points["value"][2000] == math.inf
    assert points["time_ms"].min() > 1e12

    meta, ranges = asked(runs, width=100)
    assert (meta["form"], meta["first_step"], meta["last_step"]) == ("ranges", 0, 2999)
    assert len(ranges["step"]) <= 100
    finite = points["value"][np.isfinite(points["value"])]
    assert (ranges["min"].min(), ranges["max"].max()) == (finite.min(), finite.max())
    assert (ranges["nan"].sum(), ranges["pinf"].sum(), ranges["ninf"].sum()) == (1, 1, 0)


def test_a_part_comes_with_a_point_beyond_each_end(runs):
    meta, points = asked(runs, first=10, last="20.5")
    assert points["step"].tolist() == list(range(9, 22))
    assert (meta["first_step"], meta["last_step"]) == (0, 2999)
    assert asked(runs, first=5000)[1]["step"].tolist() == [2999]
    assert asked(runs, first=30, last=10)[1]["step"].size <= 2


def test_since_brings_only_what_is_new(runs, run):
    meta, _ = asked(runs)
    again, none = asked(runs, since=meta["cursor"])
    assert (again["whole"], again["cursor"], none["step"].size) == (False, meta["cursor"], 0)

    run.scalar("loss", 7.0, step=3000)
    run.scalar("loss", math.nan, step=3001)
    assert run.flush(60)
    new, points = asked(runs, since=meta["cursor"])
    assert not new["whole"]
    assert points["step"].tolist() == [3000, 3001]
    assert points["value"][0] == 7.0
    whole, points = asked(runs, width=5000)
    assert whole["cursor"] == new["cursor"]
    assert points["step"].size == 3002


def test_since_brings_all_where_a_step_was_recorded_again(runs, run):
    meta, _ = asked(runs)
    run.scalar("loss", 7.0, step=50)
    assert run.flush(60)
    found, points = asked(runs, since=meta["cursor"], width=5000)
    assert found["whole"]
    assert points["value"][points["step"] == 50][-1] == 7.0


def test_the_latest_attempt_counts(runs, run, tmp_path):
    asked(runs)
    run.finish("finished")
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as resumed:
        resumed.scalar("loss", 9.0, step=2999)
    _, points = asked(runs, width=5000)
    assert points["step"].size == 3000
    assert points["value"][-1] == 9.0


def test_a_long_series_is_read_from_its_roll_ups_until_a_part_is_asked_for(runs, monkeypatch):
    monkeypatch.setattr(long_series.long_series, "__defaults__", (1000,))
    meta, ranges = asked(runs, width=4)
    assert (meta["form"], meta["rollups"], meta["count"]) == ("ranges", True, 3000)
    assert 1 < len(ranges["step"]) <= 4
    assert ranges["count"].sum() == 3000
    assert (ranges["nan"].sum(), ranges["pinf"].sum()) == (1, 1)
    assert ranges["max"].max() == max(math.sin(step) for step in range(3000) if step not in (100, 2000))
    assert (np.diff(ranges["time_ms"]) >= 0).all()

    meta, points = asked(runs, first=90, last=110)
    assert (meta["form"], meta["count"], meta["last_step"]) == ("points", 3000, 2999)
    assert points["step"].tolist() == list(range(90, 111))
    new, none = asked(runs, since=meta["cursor"])
    assert (new["whole"], none["step"].size) == (False, 0)


def test_hostile_and_wrong_questions_have_one_line_for_an_answer(runs):
    assert asked(runs, name="%3Cb%3E")[0]["name"] == "<b>"
    with pytest.raises(NotFound, match="no scalar 'lose'; did you mean 'loss'"):
        asked(runs, name="lose")
    with pytest.raises(NotFound, match="no run has the key"):
        asked(runs, run="zzz")
    with pytest.raises(NotFound, match="rank is 3; expected one that the run has: 0"):
        asked(runs, rank=3)
    for wrong in ({"since": "1"}, {"since": "-1.2"}, {"width": 0}, {"first": "x"}, {"rank": -1}):
        with pytest.raises(BadRequest):
            asked(runs, **wrong)
    for name in ("%00", "..%2F..%2Fetc", "x" * 4096, "'; DROP TABLE scalar; --"):
        with pytest.raises(AnswerError, match="has no scalar"):
            asked(runs, name=name)


def test_csv_has_every_point_as_it_is_and_is_made_in_parts(runs, run):
    run.scalar('a,"b"', 1 / 3, step=2**62)
    assert run.flush(60)
    key = runs.all()[0].key
    found = answer(runs, f"csv?runs={key}&name=loss")
    assert (found.media_type, found.download, found.body) == ("text/csv", "loss.csv", b"")
    parts = list(found.chunks())
    rows = list(csv.DictReader(b"".join(parts).decode().splitlines()))
    assert [int(row["step"]) for row in rows] == list(range(3000))
    expected = {100: "nan", 2000: "inf"}
    assert all(row["value"] == expected.get(step, repr(math.sin(step))) for step, row in enumerate(rows))
    assert {row["run"] for row in rows} == {"run"} and float(rows[0]["time_ms"]) > 1e12
    (row,) = csv.DictReader(b"".join(answer(runs, f"csv?runs={key}&name=a,%22b%22").chunks()).decode().splitlines())
    assert (row["name"], row["step"], float(row["value"])) == ('a,"b"', str(2**62), 1 / 3)
    for wrong in ("name=lose", "name=loss&rank=3", "name=lose&rank=all"):
        with pytest.raises(NotFound, match="none of the runs has a scalar"):
            answer(runs, f"csv?runs={key}&{wrong}")


def test_csv_calls_runs_of_one_name_as_it_is_told(tmp_path):
    for folder in ("a", "b"):
        with stepscope.open_run(tmp_path / folder / "exp", sinks=[]) as run:
            run.scalar("loss", 0.5, step=7)
    with closing(RunList([tmp_path])) as runs:
        keys = ",".join(one.key for one in sorted(runs.all(), key=lambda one: str(one.folder)))
        asked = f"csv?runs={keys}&name=loss&names="
        found = b"".join(answer(runs, f"{asked}a/exp%0Ab/exp").chunks()).decode().splitlines()
        assert [row["run"] for row in csv.DictReader(found)] == ["a/exp", "b/exp"]
        with pytest.raises(BadRequest, match="names has 1 lines; expected one for each of the 2 runs"):
            answer(runs, f"{asked}a/exp")


def test_csv_has_all_ranks_if_asked(tmp_path):
    for rank, name in enumerate(("loss", "loss", "else")):
        with stepscope.open_run(tmp_path / "runs/exp1", sinks=[], rank=rank, resume=rank > 0) as run:
            run.scalar(name, rank / 2, step=7)
    with closing(RunList([tmp_path / "runs"])) as runs:
        key = runs.all()[0].key
        rows = list(
            csv.DictReader(b"".join(answer(runs, f"csv?runs={key}&name=loss&rank=all").chunks()).decode().splitlines())
        )
    assert [(row["run"], row["step"], row["value"]) for row in rows] == [
        ("rank 0 of exp1", "7", "0.0"),
        ("rank 1 of exp1", "7", "0.5"),
    ]
