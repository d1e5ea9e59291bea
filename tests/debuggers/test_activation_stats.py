"""Activation statistics, over all values and by channel."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from debuggers.activation_stats import ActivationStatsDebugger

NAMES = [
    "shape", "mean", "std", "min", "max", "l1_norm", "l2_norm", "sparsity", "positive_ratio",
    "saturation_low", "saturation_high",
]  # fmt: skip


def capture(output):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ActivationStatsDebugger("layer").process_forward(nn.ReLU(), (), output)


def test_the_keys():
    result = capture(torch.randn(2, 3, 4, 4))
    assert list(result) == ["layer_name", "module_type", "activation_stats", "sample_values"]
    assert (result["layer_name"], result["module_type"]) == ("layer", "ReLU")
    assert list(result["activation_stats"]) == [*NAMES, "channel_means", "channel_stds"]
    assert len(result["sample_values"]) == 96


def test_the_values():
    stats = capture(torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]))["activation_stats"]
    assert stats["l1_norm"] == pytest.approx(7.5 / 6)
    assert stats["l2_norm"] == pytest.approx(math.sqrt(15.25))
    assert [stats[name] for name in NAMES[7:]] == pytest.approx([1 / 6, 3 / 6, 2 / 6, 2 / 6])


@given(st.lists(st.integers(1, 4), min_size=3, max_size=5))
def test_channels_lie_along_dimension_one(shape):
    output = torch.randn(shape, dtype=torch.float64)
    stats = capture(output)["activation_stats"]
    channels = np.moveaxis(output.numpy(), 1, 0).reshape(shape[1], -1)
    np.testing.assert_allclose(stats["channel_means"], channels.mean(1))
    expected = channels.std(1, ddof=1) if channels.shape[1] > 1 else np.full(shape[1], np.nan)
    np.testing.assert_allclose(stats["channel_stds"], expected)


@pytest.mark.parametrize("output", [torch.tensor(1.0), torch.ones(3), torch.ones(3, 2)])
def test_outputs_without_channels_have_no_channel_statistics(output):
    assert list(capture(output)["activation_stats"]) == NAMES


def test_nan_is_shown_and_counts_in_no_share():
    stats = capture(torch.tensor([float("nan"), 0.0, 2.0, -2.0]))["activation_stats"]
    assert all(math.isnan(stats[name]) for name in NAMES[1:7])
    assert [stats[name] for name in NAMES[7:]] == [0.25] * 4


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (0, 3, 4, 4)])
def test_an_empty_output_has_nan(shape):
    stats = capture(torch.ones(shape))["activation_stats"]
    assert stats["shape"] == list(shape)
    assert all(math.isnan(stats[name]) for name in NAMES[1:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_other_dtypes_are_measured(dtype):
    result = capture(torch.tensor([[[1, 0], [1, 1]]]).to(dtype))
    assert result["activation_stats"]["mean"] == 0.75
    assert result["activation_stats"]["channel_means"] == [0.5, 1]
    assert result["sample_values"] == [1, 0, 1, 1]


def test_half_precision_does_not_overflow():
    assert capture(torch.full((1000,), 60000.0, dtype=torch.float16))["activation_stats"]["mean"] == 60000
