"""A datapoint is judged by what is said of it, or by the class with the largest output."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from debuggers.page_files.verdicts import IGNORED_LABEL, Verdict, judge

THIRD = np.array([0.5, -1.0, 2.0, 1.5], np.float32)


@pytest.mark.parametrize("value", [True, 1, 1.0, np.array([1, 1]), np.ones((2, 3), bool), [True, True]])
def test_right_is_what_is_true_throughout(value):
    assert judge({"correct": value}) == Verdict(is_correct=True)
    assert judge({"scores": {"correct": value}}) == Verdict(is_correct=True)


@pytest.mark.parametrize("value", [False, 0, 0.97, math.nan, np.array([1, 0]), [True, False]])
def test_wrong_is_what_is_not_true_somewhere(value):
    assert judge({"correct": value}) == Verdict(is_correct=False)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        "text",
        {},
        {"labels": 1},
        {"outputs": THIRD},
        {"correct": "yes"},
        {"correct": []},
        {"scores": 0.5},
        {"labels": 2.0, "outputs": THIRD},
        {"labels": "cat", "outputs": THIRD},
        {"labels": 0, "outputs": np.ones(1)},
        {"labels": 0, "outputs": 3.5},
        {"labels": 0, "outputs": THIRD.astype(complex)},
        {"labels": np.array([0, 1, 2]), "outputs": np.ones((2, 4))},
        {"labels": np.full(3, IGNORED_LABEL), "outputs": np.ones((3, 4))},
        {"labels": 0, "outputs": {"boxes": THIRD, "classes": THIRD}},
    ],
)
def test_nothing_is_said_where_nothing_tells(kept):
    assert judge(kept) is None


def test_the_largest_output_is_held_against_the_label():
    assert judge({"outputs": THIRD, "labels": 2}) == Verdict(is_correct=True, label=2, prediction=2, margin=0)
    assert judge({"outputs": THIRD, "labels": 0}) == Verdict(is_correct=False, label=0, prediction=2, margin=1.5)


def test_what_is_said_counts_more_than_the_largest_output():
    verdict = judge({"outputs": THIRD, "labels": 2, "correct": False, "scores": {"loss": 0.7, "correct": True}})
    assert verdict == Verdict(is_correct=False, label=2, prediction=2, loss=0.7, margin=0)


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (THIRD[None], 0),
        (THIRD[None], np.array([0])),
        ({"logits": THIRD, "hidden": np.ones((5, 5))}, 0),
        ({"scores": THIRD}, {"class": 0}),
        (THIRD.astype(ml_dtypes.bfloat16), np.int64(0).item()),
        (THIRD.tolist(), 0),
    ],
)
def test_other_forms_of_one_classification(outputs, labels):
    assert judge({"outputs": outputs, "labels": labels}) == Verdict(is_correct=False, label=0, prediction=2, margin=1.5)


def reference(logits, labels):
    """Rows of torch's cross entropy that count, and which of them are right."""
    counted = labels != IGNORED_LABEL
    right = torch.from_numpy(logits).double().argmax(1).numpy() == labels
    return right[counted].all(), counted


@given(
    hnp.arrays(np.float32, (6, 5), elements=st.floats(-9, 9, width=32), unique=True),
    hnp.arrays(np.int64, 6, elements=st.integers(0, 4) | st.just(IGNORED_LABEL)).filter(lambda x: (x >= 0).any()),
    st.sampled_from(["last", "first", "second"]),
)
def test_each_position_counts_wherever_the_classes_lie(rows, labels, axis):
    right, counted = reference(rows, labels)
    outputs, classes = rows, labels
    if axis == "first":  # (classes, height, width)
        outputs, classes = rows.T.reshape(5, 2, 3), labels.reshape(2, 3)
    if axis == "second":  # (batch, classes, length)
        outputs, classes = rows.reshape(2, 3, 5).transpose(0, 2, 1), labels.reshape(2, 3)
    verdict = judge({"outputs": outputs, "labels": classes})
    margins = rows.astype(float).max(1) - rows.astype(float)[np.arange(6), np.maximum(labels, 0)]
    assert verdict.is_correct == right
    assert verdict.margin == pytest.approx(margins[counted].mean())


@pytest.mark.parametrize("label", [-1, 4, 255])
def test_a_label_that_is_no_class_is_wrong(label):
    verdict = judge({"outputs": THIRD, "labels": label})
    assert (verdict.is_correct, verdict.label, verdict.prediction) == (False, label, 2)
    assert math.isnan(verdict.margin)


@pytest.mark.parametrize("label", [0, 1])
def test_a_nan_output_is_wrong_whatever_the_label(label):
    verdict = judge({"outputs": np.array([1.0, np.nan, 3.0]), "labels": label})
    assert (verdict.is_correct, verdict.prediction) == (False, None)
    assert math.isnan(verdict.margin)


def test_infinite_outputs():
    assert judge({"outputs": np.array([0.0, np.inf]), "labels": 1}).is_correct
    assert judge({"outputs": np.array([0.0, -np.inf]), "labels": 1}).margin == math.inf
