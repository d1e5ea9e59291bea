"""Curves: what they take, what they refuse, and their plainer forms."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import Curve
from tracker_adapters.errors import ArtifactError
from tracker_adapters.kinds.curve import MAX_POINTS
from tracker_adapters.store.reading.record import RunRecord

import stepscope


def curve(x=(0, 1), y=(2, 3), **fields):
    return Curve(name="roc", step=4, time_ns=5, x=x, y=y, **fields)


@pytest.mark.parametrize(
    "values",
    [[0, 1, 2], range(3), np.arange(3, dtype=np.int8), np.arange(3, dtype=np.float16), torch.arange(3.0)],
    ids=["list", "range", "int8", "float16", "tensor"],
)
def test_points_of_every_make_become_float64(values):
    made = curve(values, values)
    assert made.x.dtype == made.y.dtype == np.float64
    assert made.x.tolist() == made.y.tolist() == [0.0, 1.0, 2.0]


def test_the_callers_array_is_copied_and_the_copy_cannot_be_changed():
    given = np.arange(2.0)
    made = curve(given, given)
    given[0] = 9
    assert made.x.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        made.y[0] = 1


def test_y_may_be_anything_and_a_curve_without_points_is_one():
    assert curve([3, 1, 2], [math.nan, math.inf, -math.inf]) == curve([3, 1, 2], [math.nan, math.inf, -math.inf])
    assert curve([], []).plainer().rows == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": [1, 2, 3]}, "x has 3 points and y has 2"),
        ({"x": [0, math.nan]}, r"x\[1\] is nan; expected finite"),
        ({"x": [math.inf, 0]}, r"x\[0\] is inf; expected finite"),
        ({"x": [[0, 1]]}, r"x has shape \(1, 2\); expected \(n,\)"),
        ({"y": 3.0}, r"y has shape \(\); expected \(n,\)"),
        ({"y": np.zeros(MAX_POINTS + 1)}, r"y has shape \(100001,\); expected \(n,\), n at most 100,000"),
        ({"y": ["a", "b"]}, "expected bool, integer or floating-point"),
        ({"y": [1j, 2j]}, "complex"),
        ({"y": None}, "y: "),
        ({"title": 3}, "title is int 3; expected a str"),
        ({"x_label": "a" * 1001}, "x_label has 1001 characters"),
    ],
)
def test_what_is_no_curve_is_refused(fields, message):
    with pytest.raises(ArtifactError, match=message):
        curve(**fields)


def test_curves_differ_in_each_field():
    one = curve()
    others = {"x": [0, 2], "y": [2, 4], "title": "t", "x_label": "a", "y_label": "b", "name": "n", "step": 0}
    assert all(replace(one, **{key: value}) != one for key, value in others.items())
    assert one != "roc"


def test_secrets_in_labels_are_left_out():
    made = curve(title="scores of https://user:hunter2@host/data", y_label="token=ghp_" + "a" * 36)
    assert "hunter2" not in made.title
    assert "ghp_a" not in made.y_label


def test_as_a_table_its_columns_are_named_after_the_axes_where_these_differ():
    assert curve(x_label="fpr", y_label="tpr").plainer().columns == ("fpr", "tpr")
    assert curve(x_label="rate", y_label="rate").plainer().columns == ("x", "y")
    assert curve().plainer().rows == ((0.0, 2.0), (1.0, 3.0))


def test_a_run_gives_back_the_latest_attempt_at_each_step(tmp_path):
    for resume, high in ((False, 1.0), (True, 2.0)):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=resume) as run:
            run.scoped("val").curve("roc", [0, 1], [0, high], step=7, title="ROC")
            run.curve("large", np.arange(50_000), np.full(50_000, np.nan), step=0)  # in a blob
    with RunRecord(tmp_path / "run") as record:
        (found,) = record.curves("val/roc")
        assert (found.step, found.y.tolist(), found.title) == (7, [0.0, 2.0], "ROC")
        assert np.isnan(record.curves("large")[0].y).all()
        with pytest.raises(ArtifactError, match="no curve 'roc'; did you mean 'val/roc'"):
            record.curves("roc")
