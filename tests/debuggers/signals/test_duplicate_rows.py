"""The share of repeated rows outside of the class that repeats most of them, and of those with the same target."""

import math

import pytest
import torch

from debuggers.signals.duplicate_rows import compare_duplicates


def duplicates_elsewhere(rows, labels):
    return compare_duplicates(rows, labels)["inputs/duplicates_elsewhere"]


def duplicates_agree(rows, targets):
    return compare_duplicates(rows, targets)["inputs/duplicates_agree"]


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        ([1, 1, 1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 0, 0, 0, 0], 0.0),
        ([1, 1, 1, 2, 3, 3, 5, 6], [1, 1, 1, 1, 0, 0, 0, 0], 0.25),
        ([1, 5, 1, 6, 5, 1, 6, 2], [1, 0, 1, 0, 0, 1, 0, 1], 0.5),
        ([1, 1, 1, 2, 3, 3, 5, 6], [1, 1, 1, 1, 0, 0, 2, 2], 0.25),
        ([1, 2, 3, 4], [1, 1, 0, 0], 0.0),
        ([1, 1, 2, 2], [3, 3, 3, 3], 0.5),
        ([1, 1, 2, 2], [3, 3, 3, 0], 0.5),
    ],
)
def test_rows_of_the_class_with_most_of_them_are_left_out(rows, labels, expected):
    found = duplicates_elsewhere(torch.tensor(rows, dtype=torch.float64), torch.tensor(labels))
    assert float(found) == expected


def test_labels_may_be_of_any_dtype_and_one_row_says_nothing():
    rows = torch.tensor([1.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    for labels in (torch.tensor([True, True, False, False]), torch.tensor([1.0, 1.0, 0.0, 0.0])):
        assert float(duplicates_elsewhere(rows, labels)) == 0.0
    assert float(duplicates_elsewhere(rows[:1], torch.tensor([0]))) == 0.0


@pytest.mark.parametrize(
    ("rows", "targets", "expected"),
    [
        ([1, 1, 2, 2], [0.5, 0.5, 3.0, 3.0], 1.0),
        ([1, 1, 2, 2], [0.5, 0.6, 3.0, 3.0], 0.5),
        ([1, 1, 1, 2], [0.5, 0.6, 0.5, 0.6], 0.5),
        ([1, 2, 1, 2], [0.5, 0.5, 0.6, 0.6], 0.0),
        ([1, 1, 2, 2], [math.nan, math.nan, 3.0, 3.0], 0.5),
    ],
)
def test_equal_rows_may_have_the_same_target(rows, targets, expected):
    assert float(duplicates_agree(torch.tensor(rows), torch.tensor(targets))) == expected


def test_where_no_row_equals_another_none_disagrees():
    found = duplicates_agree(torch.tensor([1, 2, 3]), torch.tensor([1, 1, 1]))
    assert (found.dtype, float(found)) == (torch.float64, 1.0)
