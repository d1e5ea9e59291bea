"""Statistics of batches, on rows whose classes are known."""

import math

import pytest
import torch

from debuggers.signals.batch_statistics import input_statistics, target_statistics


def counted(targets, classes=None):
    found, columns = target_statistics(targets, len(targets), classes)
    return columns.counts.tolist(), float(found["targets/classes"]), float(found["targets/top_share"])


def test_one_hot_targets_are_counted_by_class_as_indices_are():
    indices = torch.tensor([2, 0, 2, 3, 2])

    assert counted(torch.nn.functional.one_hot(indices, 4).float()) == counted(indices, 4) == ([1, 0, 3, 1], 3, 0.6)


@pytest.mark.parametrize(
    ("targets", "zeros", "ones"),
    [([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]], 3, 3), ([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 5, 1)],
)
def test_several_labels_a_row_are_counted_as_zeros_and_ones(targets, zeros, ones):
    assert counted(torch.tensor(targets))[0] == [zeros, ones, 0]


@pytest.mark.parametrize(("targets", "counts"), [
    ([1, -1, 1, 1], [1, 3]), ([-1, -1], [2, 0]), ([1, 1], [0, 2]), ([1, -1, 0], [1, 1]), ([-100, 1, 1], [0, 2]),
])  # fmt: skip
def test_the_signs_of_a_margin_are_two_classes_and_one_below_beside_an_index_is_none(targets, counts):
    assert counted(torch.tensor(targets), classes=2)[0] == counts


def test_shares_of_classes_are_not_counted():
    assert counted(torch.tensor([[0.1, 0.8, 0.1]]))[0] == [0, 0, 0]


def test_a_single_target_has_no_number_of_classes():
    _, classes, share = counted(torch.tensor([2]), 4)
    assert math.isnan(classes)
    assert share == 1.0


def test_a_constant_column_has_no_scale_although_its_deviation_is_rounded():
    rows = torch.stack([torch.full((50,), 0.3), torch.linspace(-1, 1, 50), torch.linspace(-10, 10, 50)], 1)
    assert rows[:, 0].std(0, correction=0) > 0

    assert float(input_statistics([rows])["inputs/scale_ratio"]) == pytest.approx(10.0)


def test_the_most_frequent_row_is_told_from_rows_that_repeat():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    found = input_statistics([rows])
    assert (float(found["inputs/duplicates"]), float(found["inputs/top_row_share"])) == pytest.approx((0.6, 0.6))


@pytest.mark.parametrize(
    ("targets", "most"),
    [([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], 2.0), ([[1.0, 0.0], [0.0, 0.0]], 1.0), ([[0.9, 0.8], [0.1, 0.2]], None)],
)
def test_the_row_with_the_most_labels_is_told_where_they_are_labels(targets, most):
    found = target_statistics(torch.tensor(targets), None, None)[0]["targets/most_labels"].item()
    assert math.isnan(found) if most is None else found == most


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        (torch.nn.functional.normalize(torch.rand(50, 4), dim=0), 1.0),
        (torch.nn.functional.normalize(torch.rand(50, 4), dim=0) * torch.tensor([1.0, 1.0, 1.0, 1.01]), 0.75),
        (torch.nn.functional.normalize(torch.rand(50, 4), dim=0).half(), 1.0),
        (torch.nn.functional.normalize(torch.rand(50, 4), dim=1), 0.0),
        (torch.eye(4), math.nan),  # one 1 in each column
    ],
)
def test_the_share_of_columns_of_length_1_is_told(rows, share):
    assert float(input_statistics([rows])["inputs/unit_columns"]) == pytest.approx(share, nan_ok=True)


def test_of_some_rows_of_a_large_batch_no_lengths_are_told():
    assert "inputs/unit_columns" not in input_statistics([torch.rand(1 << 14, 64)])
