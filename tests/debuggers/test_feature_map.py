"""The feature map debugger keeps a layer's output and its statistics."""

import math
import warnings

import pytest
import torch
from torch import nn

from debuggers.feature_map import FeatureMapDebugger
from debuggers.layer_values.picture_grid import picture_grid


def capture(output):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return FeatureMapDebugger("layer").process_forward(nn.Identity(), (), output)


def test_the_keys_and_statistics():
    output = torch.randn(2, 3, 4, 4, requires_grad=True)
    result = capture(output)
    assert (list(result), result["layer_name"]) == (["feature_map", "stats", "layer_name"], "layer")
    assert torch.equal(output, result["feature_map"])
    assert not result["feature_map"].requires_grad
    assert result["stats"] == {
        "mean": output.mean().item(),
        "std": output.std().item(),
        "min": output.min().item(),
        "max": output.max().item(),
        "shape": [2, 3, 4, 4],
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.uint8, torch.bool])
def test_narrow_and_integer_outputs_are_measured_in_a_wider_dtype(dtype):
    output = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    result = capture(output)
    assert result["feature_map"].dtype == dtype
    assert result["stats"]["mean"] == pytest.approx(0.6)
    assert result["stats"]["std"] == pytest.approx(math.sqrt(0.3))
    assert (result["stats"]["min"], result["stats"]["max"]) == (0, 1)


@pytest.mark.parametrize("output", [torch.ones(0, 3), torch.tensor([1.0, float("nan")])])
def test_empty_outputs_and_nan_give_nan(output):
    stats = capture(output)["stats"]
    assert all(math.isnan(stats[name]) for name in ("mean", "std", "min", "max"))


def test_a_single_value_has_no_standard_deviation():
    stats = capture(torch.tensor(2.0))["stats"]
    assert (stats["mean"], stats["min"], stats["shape"]) == (2, 2, [])
    assert math.isnan(stats["std"])


@pytest.mark.parametrize(("output", "name"), [(None, "NoneType"), ((1, "a"), "tuple"), ({"a": 1}, "dict")])
def test_an_output_that_is_no_tensor_is_reported(output, name):
    assert capture(output) == {"error": f"Output is not a tensor: got {name}"}


def test_its_picture_shows_the_first_datapoint():
    maps = torch.zeros(2, 3, 8, 8)
    maps[0, 2] = 4.0
    (picture,) = FeatureMapDebugger("layer").pictures({"feature_map": maps}, {})
    assert (picture.name, picture.values.shape) == ("feature_map", (65, 65))
    assert picture.values[:32].max() == 0
    assert picture.values[33:, :32].min() == 1


def test_outputs_without_maps_make_no_picture():
    debugger = FeatureMapDebugger("layer")
    assert list(debugger.pictures({"error": "Output is not a tensor"}, {})) == []
    assert list(debugger.pictures({"feature_map": torch.ones(4, 10)}, {})) == []


def test_a_grid_has_one_scale_and_survives_anything():
    maps = torch.stack([torch.full((32, 32), value) for value in (1.0, 3.0, math.nan, math.inf, -math.inf)])
    grid = picture_grid(maps)
    cells = [grid[0, 0], grid[0, 33], grid[0, 66], grid[33, 0], grid[33, 33]]
    assert [cell.item() for cell in cells if not cell.isnan()] == [0, 1, 1, 0]
    assert cells[2].isnan()
    assert picture_grid(torch.full((1, 4, 4), math.nan)).isnan().all()
    assert picture_grid(torch.full((1, 4, 4), 7.0)).max() == 0


class Named(torch.Tensor):
    """A tensor of another class, as libraries for images define them."""


@pytest.mark.parametrize("size", [4, 40_000])
def test_the_map_keeps_the_class_of_the_output(size):
    output = torch.rand(size).as_subclass(Named)
    feature_map = FeatureMapDebugger("0").process_forward(nn.Identity(), (), output)["feature_map"]
    assert type(feature_map) is Named
    assert torch.equal(output, feature_map)
    assert feature_map.data_ptr() != output.data_ptr()


@pytest.mark.parametrize("size", [4, 40_000])
def test_a_view_that_negates_its_memory_is_measured_as_it_reads(size):
    output = torch._neg_view(torch.full((size,), 2.0))
    assert output.is_neg()
    found = capture(output)
    assert (found["stats"]["mean"], found["stats"]["max"]) == (-2, -2)
    assert (found["feature_map"] == -2).all()
