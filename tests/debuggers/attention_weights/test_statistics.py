"""Statistics of attention weights, measured in blocks as in one piece."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from torch.utils._python_dispatch import TorchDispatchMode

from debuggers.attention_weights.statistics import AttentionMeasurement
from debuggers.attention_weights.weights import GivenWeights, scaled_dot_product

LARGE = 10**9


def measured(values, max_elements=LARGE, per_head=None):
    values = torch.as_tensor(values)
    return AttentionMeasurement(GivenWeights(values, per_head), max_elements, max_elements)


def test_the_names():
    statistics = measured(torch.rand(2, 3, 4, 5)).statistics
    assert list(statistics) == [
        "entropy", "entropy_per_head", "max_attention", "attention_distribution", "mean_row_sum", "masked_rows",
        "non_finite_rows", "shape",
    ]  # fmt: skip
    assert statistics["shape"] == [2, 3, 4, 5]
    assert "entropy_per_head" not in measured(torch.rand(3, 4, 5)).statistics


def test_entropy_is_in_nats_with_zeros_as_they_are():
    statistics = measured([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]).statistics
    assert statistics["entropy"] == pytest.approx(math.log(4) / 2, abs=1e-7)
    assert measured([[1.0, 0.0]]).statistics["entropy"] == 0


def test_each_head_has_its_entropy():
    heads = torch.stack([torch.eye(4), torch.full((4, 4), 0.25)]).expand(3, 2, 4, 4)
    assert measured(heads).statistics["entropy_per_head"] == pytest.approx([0, math.log(4)])
    assert measured(heads[0], per_head=True).statistics["entropy_per_head"] == pytest.approx([0, math.log(4)])


def test_the_distribution_is_the_mean_over_the_queries():
    values = torch.rand(2, 3, 4, 5).softmax(-1)
    distribution = measured(values).statistics["attention_distribution"]
    torch.testing.assert_close(distribution, values.mean(2))
    torch.testing.assert_close(distribution.sum(-1), torch.ones(2, 3))


def test_masked_rows_are_counted_and_left_out_of_the_means():
    statistics = measured([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]]).statistics
    assert (statistics["masked_rows"], statistics["non_finite_rows"]) == (1, 0)
    assert statistics["entropy"] == pytest.approx(math.log(2) / 2)
    assert statistics["attention_distribution"].tolist() == [0.75, 0.25]
    assert statistics["mean_row_sum"] == 1


def test_nan_is_shown_and_counted():
    values = torch.full((1, 2, 3, 4), 0.25)
    values[0, 1, 2] = math.nan
    statistics = measured(values).statistics
    assert (statistics["masked_rows"], statistics["non_finite_rows"]) == (0, 1)
    assert all(math.isnan(statistics[name]) for name in ("entropy", "max_attention", "mean_row_sum"))
    assert statistics["entropy_per_head"][0] == pytest.approx(math.log(4))
    assert math.isnan(statistics["entropy_per_head"][1])
    assert statistics["attention_distribution"].isnan().tolist() == [[[False] * 4, [True] * 4]]


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 3, 0), (0, 2, 3, 3)])
def test_nothing_has_nan(shape):
    result = measured(torch.ones(shape))
    assert math.isnan(result.statistics["entropy"])
    assert math.isnan(result.statistics["max_attention"])
    assert tuple(result.map.shape) == shape


@settings(deadline=None)
@given(
    values=npst.arrays(
        np.float32, npst.array_shapes(min_dims=2, max_dims=4, max_side=6), elements=st.floats(0, 1, width=32)
    ),
    max_elements=st.integers(0, 40),
)
def test_blocks_give_what_the_whole_gives(values, max_elements):
    whole, blocks = measured(values), measured(values, max_elements)
    assert whole.map.shape == values.shape
    assert (blocks.map is None) == (values.size > max_elements)
    for name, expected in whole.statistics.items():
        np.testing.assert_allclose(blocks.statistics[name], expected, rtol=1e-5, atol=1e-6)


@settings(deadline=None)
@given(values=npst.arrays(np.float32, (2, 3, 5, 4), elements=st.floats(0, 1, width=32)))
def test_the_formulas_in_float64(values):
    statistics = measured(values).statistics
    wide = values.astype(np.float64)
    entropies = -np.where(wide > 0, wide * np.log(np.where(wide > 0, wide, 1)), 0).sum(-1)
    attends = wide.sum(-1) > 0
    with np.errstate(invalid="ignore"):
        expected = np.where(attends, entropies, 0).sum() / attends.sum()
        heads = np.where(attends, entropies, 0).sum((0, 2)) / attends.sum((0, 2))
    np.testing.assert_allclose(statistics["entropy"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(statistics["entropy_per_head"], heads, rtol=1e-5, atol=1e-6)
    assert statistics["max_attention"] == wide.max()
    assert statistics["masked_rows"] == (~attends).sum()


class LargestTensor(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not result._is_view():
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("arguments", [{}, {"is_causal": True}, {"attn_mask": torch.randn(128, 64) > -1}])
def test_a_large_map_never_lies_in_memory(arguments):
    query, key = torch.randn(1, 2, 128, 4), torch.randn(1, 2, 64, 4)
    weights = scaled_dot_product(query, key, key, **arguments)
    with LargestTensor() as largest:
        result = AttentionMeasurement(weights, 1000, 1000)
    assert result.map is None
    assert largest.elements <= 1000
    assert result.statistics["shape"] == [1, 2, 128, 64]
