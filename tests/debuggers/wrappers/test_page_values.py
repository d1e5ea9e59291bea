"""What a page keeps is a copy: arrays and plain values, cut into datapoints where a batch has an index a row."""

import enum
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch_parts import freed_tensor
from unusual_outputs import BrokenMapping, Pair, Result, Unreadable, Unset

from debuggers.host_arrays.block_memory import BLOCK_BYTES
from debuggers.page_files.unpickling import MAX_INTEGER_BYTES
from debuggers.pages import load_page, write_page
from debuggers.wrappers.page_values import by_datapoint, host_copy


class Colour(enum.IntEnum):
    RED = 3


def test_nothing_shares_memory_with_the_original():
    tensor, array = torch.zeros(3), np.zeros(3)
    copies = host_copy({"tensor": tensor, "array": array, "view": tensor[:2]})
    tensor += 1
    array += 1
    assert [copies[name].tolist() for name in ("tensor", "array", "view")] == [[0, 0, 0], [0, 0, 0], [0, 0]]


def test_a_view_keeps_no_more_than_its_own_values():
    copy = host_copy(torch.zeros(10_000, 1000)[:, 0])
    assert copy.nbytes == 40_000
    assert (copy if copy.base is None else copy.base).nbytes <= BLOCK_BYTES < 40_000_000


def test_a_tensor_that_is_met_twice_is_copied_once():
    tensor = torch.ones(3)
    copies = host_copy({"a": {"x": tensor}, "b": [tensor]})
    assert copies["a"]["x"] is copies["b"][0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (torch.tensor(2.5), 2.5),
        (torch.tensor(3), 3),
        (torch.tensor(True), True),
        (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
        (np.float32(0.5), 0.5),
        (np.array(7), 7),
        (Colour.RED, 3),
        ("text", "text"),
        (Path("a/b"), "a/b"),
        (torch.float16, "torch.float16"),
        (torch.Size([2, 3]), (2, 3)),
        ({1}, [1]),
        ({Colour.RED: 1, Path("x"): 2}, {"3": 1, "x": 2}),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array(["2024-01-01"], dtype="M8[D]"), ["2024-01-01"]),
        (Result(torch.tensor(1), "n"), {"logits": 1, "note": "n"}),
        (Pair(1, (2, [3])), {"left": 1, "right": (2, [3])}),
    ],
)
def test_values_become_plain(value, expected):
    copy = host_copy(value)
    assert (type(expected), expected) == (type(copy), copy)


@pytest.mark.parametrize(
    ("tensor", "dtype", "values"),
    [
        (torch.tensor([1.5, float("nan")], dtype=torch.bfloat16), ml_dtypes.bfloat16, [1.5, float("nan")]),
        (torch.tensor([0.5, 448.0]).to(torch.float8_e4m3fn), ml_dtypes.float8_e4m3fn, [0.5, 448.0]),
        (torch.tensor([1 + 2j]).conj(), np.complex64, [1 - 2j]),
        (torch.ones(2, 0, 3), np.float32, np.ones((2, 0, 3))),
        (torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 0, torch.qint8), np.float32, [1, 2]),
        (torch.ones(2, requires_grad=True) * 2, np.float32, [2, 2]),
        (torch.arange(6).reshape(2, 3).T, np.int64, [[0, 3], [1, 4], [2, 5]]),
        (nn.Parameter(torch.ones(1)), np.float32, [1]),
    ],
)
def test_every_dtype_and_layout_keeps_its_values(tensor, dtype, values):
    copy = host_copy(tensor)
    assert copy.dtype == dtype
    np.testing.assert_array_equal(
        values, copy.astype(np.result_type(np.float64, dtype) if copy.dtype.kind == "c" else np.float64)
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.ones(2, device="meta"), "meta"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested"),
        (np.array([object()]), "dtype object"),
        (object(), "builtins.object"),
        (nn.ReLU(), "torch.nn.modules.activation.ReLU"),
    ],
)
def test_what_cannot_be_kept_is_reported_by_name(value, reason):
    copy = host_copy({"kept": 1, "odd": value})
    assert copy["kept"] == 1
    assert reason in copy["odd"]["error"]


def test_a_structure_that_contains_itself_ends():
    loop = []
    loop += [loop, {"again": loop}]
    error = {"error": "cannot keep a list: it contains itself"}
    assert host_copy(loop) == [error, {"again": error}]


def test_a_structure_that_is_met_again_is_no_loop():
    shared = [torch.ones(1)]
    copies = host_copy({"a": shared, "b": [shared, shared]})
    assert copies == {"a": [1], "b": [[1], [1]]}


@pytest.mark.slow
def test_sharing_and_deep_nesting_end():
    shared = nested = []
    for _ in range(45):
        shared = [shared, shared]
    for _ in range(100):
        nested = [nested]
    text = str(host_copy([nested, shared]))
    assert "more than 50 levels deep" in text
    assert "behind 100000 other containers" in text


def test_rows_of_plain_values_may_be_many():
    points = [(number, None) for number in range(150_000)]
    assert host_copy({"points": points}) == {"points": points}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (BrokenMapping, "cannot keep a BrokenMapping: gone"),
        (Unset, "cannot keep a Unset: 'Unset' object has no attribute 'value'"),
        (Unreadable, "cannot keep a Unreadable: gone"),
        (lambda: {Path("a"): 1, "a": 2}, "cannot keep a dict: two of its keys are 'a' as text"),
        (lambda: np.ma.array([1, 2], mask=[0, 1]), "cannot keep a MaskedArray: its masked elements have no values"),
        (lambda: torch.ones([1] * 40), "cannot keep a Tensor: it has 40 dimensions"),
        (lambda: 1 << 40_000, "cannot keep a int: it has 40001 bits"),
        (freed_tensor, "cannot keep a Tensor: tensor: the memory of one of shape (2,) was freed"),
    ],
)
def test_a_value_that_fails_stops_nothing(make, error):
    copy = host_copy({"kept": 1, "odd": make()})
    assert copy["kept"] == 1
    assert copy["odd"]["error"].startswith(error)


def test_the_largest_values_that_are_kept_can_be_read(tmp_path):
    largest = (1 << (8 * MAX_INTEGER_BYTES - 1)) - 1
    values = {"integers": [-largest, largest], "dimensions": torch.ones([1] * 32)}
    write_page(tmp_path, 0, {0: {"d": host_copy(values)}})
    page = load_page(tmp_path / "page_0.pkl")
    assert page[0]["d"]["integers"] == values["integers"]
    assert str(largest).isdigit()  # refused for larger ones
    assert page[0]["d"]["dimensions"].ndim == 32


def test_an_array_that_masks_nothing_is_kept():
    assert host_copy(np.ma.array([1, 2])).tolist() == [1, 2]


def test_a_batch_is_cut_where_the_first_dimension_matches():
    batch = host_copy(
        {
            "d": {
                "map": torch.arange(6).reshape(2, 3),
                "score": torch.tensor([0.5, 0.25]),
                "mean": 0.1,
                "shape": [2, 3],
                "weights": torch.ones(3),
                "levels": [torch.zeros(2, 1), torch.zeros(2, 4)],
            }
        }
    )
    first, second = by_datapoint(batch, [7, 3])[7]["d"], by_datapoint(batch, [7, 3])[3]["d"]
    assert (first["map"].tolist(), second["map"].tolist()) == ([0, 1, 2], [3, 4, 5])
    assert (first["score"], second["score"]) == (0.5, 0.25)
    assert (second["mean"], second["shape"], second["weights"].tolist()) == (0.1, [2, 3], [1, 1, 1])
    assert [level.shape for level in second["levels"]] == [(1,), (4,)]


def test_a_batch_of_one_row_is_cut_like_any_other():
    batch = host_copy({"d": torch.ones(1, 2)})
    assert by_datapoint(batch, [5])[5]["d"].shape == (2,)


def test_lists_of_the_datapoint_itself_are_cut():
    batch = host_copy({"datapoint": {"meta_info": {"path": ["a", "b"]}}, "d": {"shape": [2, 3]}})
    entry = by_datapoint(batch, [0, 1])[1]
    assert entry == {"datapoint": {"meta_info": {"path": "b"}}, "d": {"shape": [2, 3]}}
