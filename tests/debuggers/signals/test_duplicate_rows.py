"""The share of repeated rows outside of the class that repeats most of them."""

import pytest
import torch

from debuggers.signals.duplicate_rows import duplicates_elsewhere


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
