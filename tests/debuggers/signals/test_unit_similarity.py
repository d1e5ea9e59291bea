"""Rows of weights that equal each other."""

import pytest
import torch

from debuggers.signals.unit_similarity import unit_similarities


@pytest.mark.parametrize("columns", [1, 3, 32, 100])
@pytest.mark.parametrize("equal", [0, 2, 6])
def test_the_share_of_rows_that_equal_another_one(columns, equal):
    weight = torch.randn(8, columns, generator=torch.Generator().manual_seed(0))
    weight[:equal] = weight[0]
    other = weight.flip(0) + 1
    found = unit_similarities({"weight": weight, "other": other, "bias": torch.zeros(8)})
    assert {name: float(share) for name, share in found.items()} == {"weight": equal / 8, "other": equal / 8}


def test_rows_that_share_some_elements_are_not_the_same():
    weight = torch.zeros(6, 32)
    weight[:, 31] = torch.arange(6.0)
    weight[5] = weight[4]
    assert float(unit_similarities({"weight": weight})["weight"]) == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("weight", "share"),
    [
        (torch.eye(96), 0.0),  # of a recurrence
        (torch.nn.init.dirac_(torch.empty(16, 16, 3, 3)), 0.0),
        (torch.zeros(8, 96), 1.0),
        (torch.eye(96)[:1].repeat(8, 1), 1.0),
    ],
    ids=["identity", "convolution", "zeros", "repeated"],
)
def test_rows_that_are_zero_where_they_are_looked_at_equal_no_other_unless_they_are_zero(weight, share):
    assert float(unit_similarities({"weight": weight})["weight"]) == share


def test_weights_of_one_shape_are_judged_each_by_itself():
    torch.manual_seed(0)
    weights = {str(place): torch.randn(64, 100) for place in range(5)}
    weights["1"][7] = weights["1"][30]
    weights["3"][:, ::33] = 1.0  # where it is looked at first all rows are the same
    weights["4"][20:24] = weights["4"][5]
    shares = {name: float(share) for name, share in unit_similarities(weights).items()}
    assert shares == {"0": 0, "1": 2 / 64, "2": 0, "3": 0, "4": 5 / 64}
