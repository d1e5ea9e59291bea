"""The layer output debugger keeps a layer's output, maps averaged over blocks."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from debuggers.errors import DebuggerConfigError
from debuggers.layer_output import LayerOutputDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

KEYS = ["layer_name", "original_shape", "output", "downsampled", "downsample_factor"]


def capture(output, downsample_factor=4):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return LayerOutputDebugger("layer", downsample_factor).process_forward(nn.Identity(), (), output)


def block_means(maps, factor):
    """The means over blocks of the last two dimensions, each computed on its own in float64."""
    maps = np.asarray(maps, np.float64)
    height, width = maps.shape[-2:]
    rows = [
        [maps[..., top : top + factor, left : left + factor].mean((-2, -1)) for left in range(0, width, factor)]
        for top in range(0, height, factor)
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def test_the_keys():
    result = capture(torch.randn(2, 3, 8, 8, requires_grad=True))
    assert list(result) == KEYS
    assert (result["layer_name"], result["original_shape"]) == ("layer", [2, 3, 8, 8])
    assert (result["downsampled"], result["downsample_factor"]) == (True, 4)
    assert result["output"].shape == (2, 3, 2, 2)
    assert not result["output"].requires_grad


@pytest.mark.parametrize("shape", [(2, 3, 8, 12), (3, 8, 12)])
@pytest.mark.parametrize("factor", [2, 4])
def test_maps_that_blocks_divide_are_pooled_like_any(shape, factor):
    output = torch.randn(shape)
    assert torch.equal(nn.functional.avg_pool2d(output, factor), capture(output, factor)["output"])


@given(st.lists(st.integers(1, 7), min_size=3, max_size=4), st.integers(1, 9))
def test_each_block_is_the_mean_of_the_elements_that_there_are(shape, factor):
    output = torch.randn(shape, dtype=torch.float64)
    result = capture(output, factor)
    np.testing.assert_allclose(result["output"], block_means(output, factor), atol=1e-12)
    assert result["downsampled"] == (list(result["output"].shape) != shape)
    assert result["original_shape"] == shape


@pytest.mark.parametrize("factor", [3, 5, 10**12])
def test_a_block_larger_than_the_map_averages_all_of_it(factor):
    result = capture(torch.tensor([[[1.0, 2.0], [3.0, 6.0]]]), factor)
    assert (result["output"].tolist(), result["downsampled"]) == ([[[3.0]]], True)


@pytest.mark.parametrize("shape", [(), (5,), (4, 6), (2, 3, 4, 4, 4), (0, 3, 8, 8), (2, 3, 0, 8), (2, 3, 1, 1)])
def test_other_outputs_stay_as_they_are(shape):
    output = torch.randn(shape)
    result = capture(output)
    assert torch.equal(output, result["output"])
    assert (result["downsampled"], result["original_shape"]) == (False, list(shape))


def test_a_factor_of_one_keeps_the_map():
    output = torch.randn(2, 3, 8, 8).half()
    result = capture(output, 1)
    assert torch.equal(output, result["output"])
    assert result["downsampled"] is False


@pytest.mark.parametrize(
    ("dtype", "average"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float8_e4m3fn, torch.float32),
        (torch.float8_e5m2, torch.float32),
        (torch.int64, torch.float64),
        (torch.uint8, torch.float64),
        (torch.bool, torch.float64),
    ],
)
def test_averages_of_narrow_and_integer_outputs_are_not_rounded(dtype, average):
    output = torch.tensor([[[1, 0, 1, 1], [0, 0, 1, 0]]]).to(dtype)
    result = capture(output, 2)
    assert (result["output"].dtype, result["output"].tolist()) == (average, [[[0.25, 0.75]]])
    assert capture(output[0])["output"].dtype == dtype


def test_large_values_of_half_precision_do_not_overflow():
    assert capture(torch.full((1, 8, 8), 60000.0).half())["output"].tolist() == [[[60000.0] * 2] * 2]


def test_nan_and_infinity_stay_visible_up_to_the_edge():
    output = torch.zeros(1, 1, 6, 6)
    output[..., 5, 5] = math.nan
    output[..., 0, 0] = math.inf
    kept = capture(output)["output"]
    assert kept[0, 0, 0].tolist() == [math.inf, 0]
    assert kept[0, 0, 1, 0] == 0
    assert kept[0, 0, 1, 1].isnan()


@pytest.mark.parametrize("factor", [0, -1, 2.0, "2", None, True, math.nan])
def test_any_other_factor_is_an_error(factor):
    with pytest.raises(DebuggerConfigError, match=r"downsample_factor is .*expected an integer of at least 1"):
        LayerOutputDebugger("layer", factor)


def test_a_layer_may_be_missing_where_that_is_accepted():
    args = {"layer_name": "gone", "downsample_factor": 2, "missing_ok": True}
    config = [{"name": "raw", "debugger_config": {"class": LayerOutputDebugger, "args": args}}]
    with SequentialDebugger(config, nn.Identity()) as sequential:
        assert list(sequential.debuggers) == ["raw"]


def test_its_picture_shows_the_first_datapoint():
    output = torch.zeros(2, 3, 16, 16)
    output[0, 2] = 4.0
    debugger = LayerOutputDebugger("layer", 2)
    (picture,) = debugger.pictures(debugger.process_forward(nn.Identity(), (), output), {})
    assert (picture.name, picture.values.shape) == ("output", (65, 65))
    assert picture.values[:32].max() == 0
    assert picture.values[33:, :32].min() == 1


@pytest.mark.parametrize("outputs", [{"error": "no"}, {"output": torch.ones(4, 10)}, {"output": torch.ones(0, 3, 3)}])
def test_outputs_without_maps_make_no_picture(outputs):
    assert list(LayerOutputDebugger("layer").pictures(outputs, {})) == []


@pytest.mark.cuda
def test_a_device_is_not_waited_for():
    output = torch.randn(2, 3, 9, 9, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = capture(output)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    np.testing.assert_allclose(result["output"].cpu(), block_means(output.cpu(), 4), atol=1e-6)
