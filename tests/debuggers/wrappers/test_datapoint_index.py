"""A datapoint has one index, or a different one for each row of its batch."""

import numpy as np
import pytest
import torch

from debuggers.errors import DatapointError
from debuggers.wrappers.datapoint_index import datapoint_indices


@pytest.mark.parametrize(
    ("idx", "expected"),
    [
        (3, 3),
        (torch.tensor(3), 3),
        (np.int32(3), 3),
        ([3], [3]),
        (torch.tensor([4, 5]), [4, 5]),
        ((1, 2), [1, 2]),
        (torch.tensor([[4], [5]]), [4, 5]),
        ([[1]], [1]),
        ([torch.tensor(1), torch.tensor(2)], [1, 2]),
        ([-1, 2**40], [-1, 2**40]),
    ],
)
def test_the_index_may_be_an_int_a_list_or_a_tensor(idx, expected):
    assert datapoint_indices({"meta_info": {"idx": idx}}) == expected


@pytest.mark.parametrize(
    "idx",
    [1.5, "a", None, [], [[1], [2, 3]], [[1, 2]], torch.tensor([0.5]), [True], torch.ones(2, device="meta"), [2**70]],
)
def test_any_other_index_is_an_error(idx):
    with pytest.raises(DatapointError, match=r"\['idx'\] is .*expected an int"):
        datapoint_indices({"meta_info": {"idx": idx}})


def test_text_is_an_error_that_says_where_it_may_stand():
    with pytest.raises(
        DatapointError, match=r"is \['scene_1', 'scene_2'\]; .*keep text under another key of meta_info$"
    ):
        datapoint_indices({"meta_info": {"idx": ["scene_1", "scene_2"]}})


@pytest.mark.parametrize("datapoint", [{}, {"meta_info": {}}, {"meta_info": None}, None])
def test_a_missing_index_is_an_error(datapoint):
    with pytest.raises(DatapointError, match="the datapoint has no"):
        datapoint_indices(datapoint)


@pytest.mark.parametrize("idx", [[1, 1, 1], torch.tensor([2, 1, 2])])
def test_an_index_that_is_met_twice_is_an_error(idx):
    with pytest.raises(DatapointError, match=r"which has [12] twice; expected an int for the whole batch"):
        datapoint_indices({"meta_info": {"idx": idx}})


BATCH = {"inputs": {"points": torch.ones(30, 3)}, "labels": [torch.tensor(0)] * 3, "outputs": torch.ones(3, 10)}


def test_several_indices_are_those_of_the_rows():
    assert datapoint_indices({**BATCH, "meta_info": {"idx": [5, 6, 7]}}) == [5, 6, 7]
    with pytest.raises(DatapointError, match=r"2 indices, and inputs, labels and outputs have 3, 30 rows; expected"):
        datapoint_indices({**BATCH, "meta_info": {"idx": [1, 2]}})


def test_one_index_stands_for_the_whole_batch_and_nothing_else_has_rows():
    assert datapoint_indices({**BATCH, "meta_info": {"idx": [1]}}) == [1]
    assert datapoint_indices({"outputs": None, "meta_info": {"idx": [1, 2]}}) == [1, 2]


def test_a_long_index_is_shown_in_short():
    with pytest.raises(DatapointError, match="…") as error:
        datapoint_indices({"meta_info": {"idx": [0.5] * 10_000}})
    assert len(str(error.value)) < 400
