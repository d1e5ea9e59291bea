"""The histograms of a tensor: exact counts on one grid, neighbours merged where there are many."""

import numpy as np
import pytest
from observed_runs import Asked

import stepscope
from stepscope.viewer.answers.answer import NotFound


def asked_of(folder, *arrays):
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        for step, values in enumerate(arrays):
            run.histogram("gradients/a b", np.array(values), step=step)
    return Asked(folder)


def test_rows_have_counts_moments_and_percentiles(tmp_path):
    asked = asked_of(tmp_path, [0.0, 1.0, 2.0, np.nan], [-4.0, np.inf, -np.inf])
    meta, columns = asked.columns("histograms", name="gradients/a b")

    assert (meta["histograms"], meta["last_step"]) == (2, 1)
    assert columns["step"].tolist() == columns["last_step"].tolist() == [0, 1]
    for key, expected in {"count": [4, 3], "nan": [1, 0], "pos_inf": [0, 1], "neg_inf": [0, 1], "zero": [1, 0]}.items():
        assert columns[key].tolist() == expected
    assert columns["min"].tolist() == [0.0, -4.0] and columns["mean"].tolist() == [1.0, -4.0]
    assert columns["bins"].sum(axis=1).tolist() == [3, 1]
    assert columns["bins"].shape == (2, len(columns["edges"]) - 1)
    assert columns["bins"][0, meta["zero_bin"]] == 1
    assert columns["percentiles"].shape == (2, len(meta["percentiles"]))


def test_neighbours_are_merged_exactly(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 20))
    _, columns = asked_of(tmp_path, *values).columns("histograms", name="gradients/a b", steps=7)

    assert len(columns["step"]) == 7 and columns["last_step"][-1] == 49
    for place, (first, last) in enumerate(zip(columns["step"], columns["last_step"], strict=True)):
        joined = values[int(first) : int(last) + 1]
        assert columns["count"][place] == joined.size
        assert columns["min"][place] == joined.min()
        assert np.isclose(columns["std"][place], joined.std())
        assert np.array_equal(columns["bins"][place], np.histogram(joined, columns["edges"])[0])


def test_steps_can_be_chosen_and_none_may_be_left(tmp_path):
    asked = asked_of(tmp_path, [1.0], [2.0], [3.0])
    assert asked.columns("histograms", name="gradients/a b", first=1, last=1)[1]["mean"].tolist() == [2.0]
    assert asked.columns("histograms", name="gradients/a b", first=9)[1]["bins"].size == 0


def test_steps_beyond_the_integers_of_a_float_are_shown(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in (2**53 + 2, 2**63 - 1):
            run.histogram("gradients/a b", np.ones(3), step=step)
    assert Asked(tmp_path).columns("histograms", name="gradients/a b")[1]["mean"].tolist() == [1.0, 1.0]


def test_an_unknown_name_is_told(tmp_path):
    with pytest.raises(NotFound, match="no histogram 'x'"):
        asked_of(tmp_path, [1.0]).columns("histograms", name="x")
