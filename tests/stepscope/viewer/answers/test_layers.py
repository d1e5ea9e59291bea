"""Which statistics of layers a run has, and their values as a table that a heat map draws."""

import numpy as np
import pytest
import torch
from observed_runs import Asked, train

import stepscope
from stepscope.viewer.answers.answer import NotFound
from stepscope.viewer.answers.layer_table import FINITE, NAN, POSITIVE_INFINITY

ORDER = ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_session_has_statistics_in_the_models_order(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, weights=True, updates=True, activations=True)
        run.scalar("rank_of/2.weight", 3.0, step=0)
        run.scalar("score/of/the/run", 3.0, step=0)
    asked = Asked(tmp_path)
    listed = {one["key"]: one for one in asked.json("layers")["statistics"]}

    expected = {"gradient_norm", "weight_norm", "update_ratio", "activation_zero_fraction", "diagnosis/gradient_rms",
                "diagnosis/output_std", "rank_of", "gradients:zeros", "gradients:flushed_float16"}  # fmt: skip
    assert expected <= listed.keys()
    assert not any(key.startswith(("score", "total_norm")) for key in listed)
    assert next(iter(listed)) == "gradient_norm"
    assert [listed[key]["scale"] for key in ("gradient_norm", "activation_zero_fraction")] == ["log", "share"]
    meta, columns = asked.columns("layers", statistic="gradient_norm")
    assert meta["tensors"] == ORDER and meta["names"] == [f"gradient_norm/{name}" for name in ORDER]
    assert columns["high"].shape == (4, 40) and meta["span"] == 1
    with stepscope.read_run(tmp_path / "run") as record:
        assert (
            columns["high"][2].tolist() == record.scalars("gradient_norm/2.weight").values.astype(np.float32).tolist()
        )


def test_a_window_and_a_width_choose_and_join_columns(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(100):
            run.scalar("gradient_norm/a", float(step), step=step)
            if step % 2:
                run.scalar("gradient_norm/b", float("nan") if step == 51 else float("inf"), step=step)
    asked = Asked(tmp_path)

    meta, columns = asked.columns("layers", statistic="gradient_norm", width=10)
    assert meta["span"] == 10 and columns["high"][0].tolist() == [9.0 + 10 * place for place in range(10)]
    assert columns["low"][0].tolist() == [10.0 * place for place in range(10)]
    assert columns["bits"][1].tolist() == [POSITIVE_INFINITY] * 5 + [POSITIVE_INFINITY | NAN] + [POSITIVE_INFINITY] * 4
    meta, columns = asked.columns("layers", statistic="gradient_norm", first=50, last=53)
    assert columns["first_step"].tolist() == [50, 51, 52, 53]
    assert columns["bits"].tolist() == [[FINITE] * 4, [0, NAN, 0, POSITIVE_INFINITY]]


@pytest.mark.parametrize("step", [2**53 + 2, 2**62])
def test_steps_beyond_the_exact_integers_of_a_float64_are_shown(tmp_path, step):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for at in (0, step):
            run.scalar("gradient_norm/a", 3.0, step=at)
    asked = Asked(tmp_path)
    for window in ({}, {"first": step // 2, "last": 2 * step}):
        meta, columns = asked.columns("layers", statistic="gradient_norm", **window)
        assert meta["last_step"] == step
        begins = columns["first_step"][-1]
        assert begins <= step < begins + meta["span"]
        assert (columns["low"][0, -1], columns["bits"][0, -1]) == (3.0, FINITE)


def test_an_overview_comes_from_roll_ups_until_all_values_are_read(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(600):
            run.scalar("gradient_norm/a", float("nan") if step == 3 else float(step), step=step)
    asked = Asked(tmp_path)

    meta, columns = asked.columns("layers", statistic="gradient_norm", detail="overview")
    assert (meta["form"], meta["span"]) == ("overview", 256)
    assert columns["high"].tolist() == [[255.0, 511.0, 599.0]] and columns["bits"][0].tolist() == [17, 1, 1]
    assert asked.columns("layers", statistic="gradient_norm")[0]["form"] == "values"
    assert asked.columns("layers", statistic="gradient_norm", detail="overview")[0]["form"] == "values"


def test_a_statistic_is_computed_of_histograms(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step, values in enumerate(([0.0, 0.0, 1.0, 2.0], [1e-9, 1e-9, 1e-9, 1.0], [np.nan, np.inf, 1.0, -4.0])):
            run.histogram("gradients/a", torch.tensor(values), step=step)
    asked = Asked(tmp_path)

    def row(measure):
        return asked.columns("layers", statistic=f"gradients:{measure}")[1]["high"][0].tolist()

    assert row("zeros") == [0.5, 0.0, 0.0]
    assert row("flushed_float16") == [0.0, 0.75, 0.0]
    assert row("non_finite") == [0.0, 0.0, 0.5]
    assert row("largest") == [2.0, 1.0, 4.0]


def test_what_a_run_that_lives_adds_is_added(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("gradient_norm/a", 1.0, step=0)
        run.flush_store()
        asked = Asked(tmp_path)
        assert asked.columns("layers", statistic="gradient_norm")[1]["high"].tolist() == [[1.0]]
        run.scalar("gradient_norm/a", 2.0, step=1)
        run.flush_store()
    assert asked.columns("layers", statistic="gradient_norm")[1]["high"].tolist() == [[1.0, 2.0]]


def test_an_answer_that_is_older_than_its_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.viewer.answers.recent.EVERY_S", 300.0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("gradient_norm/a", 1.0, step=0)
        run.flush_store()
        asked = Asked(tmp_path)
        assert not asked.json("layers")["behind"]
        assert not asked.columns("layers", statistic="gradient_norm")[0]["behind"]
        run.scalar("gradient_norm/a", 2.0, step=1)
        run.flush_store()
        assert asked.json("layers")["behind"]
        meta, columns = asked.columns("layers", statistic="gradient_norm")
        assert (meta["behind"], columns["high"].tolist()) == (True, [[1.0]])
    meta, columns = asked.columns("layers", statistic="gradient_norm")
    assert (meta["behind"], columns["high"].tolist()) == (False, [[1.0, 2.0]])


def test_a_run_without_layers_and_an_unknown_statistic_say_so(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    asked = Asked(tmp_path)
    assert asked.json("layers")["statistics"] == []
    with pytest.raises(NotFound, match="statistic is 'x'; expected one of none"):
        asked.columns("layers", statistic="x")


def test_the_list_tells_how_far_the_run_is_beyond_what_was_measured_last(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("gradient_norm/a", 3.0, step=99)
        run.scalar("loss", 3.0, step=1721)
        run.scalar("system/memory_used", 3.0, step=5000)
    assert Asked(tmp_path).json("layers")["last_step"] == 1721
