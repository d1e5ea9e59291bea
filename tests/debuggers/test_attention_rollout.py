"""Attention rollout multiplies the layers' maps, residual connections included."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.attention_rollout import attention_rollout


def layers(count=3, shape=(2, 4, 5, 5), seed=0):
    return list(torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed)).softmax(-1).unbind())


def formula(maps, residual, fusion):
    """In float64, one position after the other."""
    fused = [getattr(np, fusion)(np.asarray(layer, dtype=np.float64), axis=-3) for layer in maps]
    size = fused[0].shape[-1]
    result = np.broadcast_to(np.eye(size), fused[0].shape)
    for weights in fused:
        mixed = residual * np.eye(size) + (1 - residual) * weights
        mixed = mixed / mixed.sum(-1, keepdims=True)
        result = np.einsum("...ij,...jk->...ik", mixed, result)
    return result


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
@pytest.mark.parametrize("residual", [0.5, 0.0, 0.3])
def test_it_is_the_papers_formula(fusion, residual):
    maps = layers()
    rollout = attention_rollout(maps, residual=residual, head_fusion=fusion)
    assert rollout.shape == (2, 5, 5)
    np.testing.assert_allclose(rollout, formula(maps, residual, fusion), rtol=0, atol=1e-6)


def test_the_order_of_the_layers_counts():
    maps = layers(2)
    assert not torch.allclose(attention_rollout(maps), attention_rollout(maps[::-1]))


def test_by_default_half_of_each_layer_is_its_residual_connection():
    maps = [torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])]
    assert attention_rollout(maps).tolist() == [[0.5, 0.5], [0, 1]]
    assert attention_rollout(maps, residual=1).tolist() == [[1, 0], [0, 1]]


@settings(deadline=None)
@given(count=st.integers(1, 4), size=st.integers(1, 6), residual=st.floats(0, 1), seed=st.integers(0, 99))
def test_rows_sum_to_one(count, size, residual, seed):
    for fusion in ("mean", "max", "min"):
        rollout = attention_rollout(layers(count, (2, size, size), seed), residual=residual, head_fusion=fusion)
        torch.testing.assert_close(rollout.sum(-1), torch.ones(size))


def test_maps_without_heads():
    maps = layers(shape=(2, 5, 5))
    rollout = attention_rollout(maps, head_fusion=None)
    torch.testing.assert_close(rollout, attention_rollout([layer[:, None] for layer in maps]))


def test_arrays_give_an_array():
    maps = [layer.numpy() for layer in layers()]
    for layer in maps:
        layer.flags.writeable = False
    rollout = attention_rollout(maps)
    assert isinstance(rollout, np.ndarray)
    np.testing.assert_allclose(rollout, formula(maps, 0.5, "mean"), rtol=0, atol=1e-6)
    assert attention_rollout([maps[0].astype(np.float64)]).dtype == np.float64
    assert attention_rollout([maps[0].astype(ml_dtypes.bfloat16)]).dtype == np.float32
    assert attention_rollout([torch.from_numpy(maps[0].copy()).bfloat16()]).dtype == torch.float32


def test_a_query_that_attends_to_nothing_keeps_its_residual_connection():
    maps = [torch.tensor([[[0.0, 0.0], [0.5, 0.5]]])]
    assert attention_rollout(maps).tolist() == [[1, 0], [0.25, 0.75]]
    assert attention_rollout(maps, residual=0).tolist() == [[0, 0], [0.5, 0.5]]


def test_nan_reaches_the_rows_that_depend_on_it():
    first, last = torch.eye(3)[None], torch.eye(3)[None].clone()
    last[0, 1] = math.nan
    assert attention_rollout([first, last]).isnan().any(-1).tolist() == [False, True, False]


def test_autocast_does_not_narrow_it():
    maps = layers()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rollout = attention_rollout(maps)
    assert torch.equal(rollout, attention_rollout(maps))


@pytest.mark.parametrize(
    ("maps", "arguments", "message"),
    [
        ([], {}, "got no maps"),
        ([torch.ones(2, 3, 4)], {}, r"map 0 has shape \(2, 3, 4\); expected self-attention"),
        ([torch.ones(3, 3)], {}, r"\(\.\.\., heads, N, N\)"),
        ([torch.ones(2, 3, 3), torch.ones(2, 4, 4)], {}, r"map 1 has shape \(2, 4, 4\), map 0 \(2, 3, 3\)"),
        ([torch.ones(2, 3, 3)], {"residual": 1.5}, "residual is 1.5"),
        ([torch.ones(2, 3, 3)], {"head_fusion": "median"}, "head_fusion is 'median'"),
    ],
)
def test_wrong_arguments_are_named(maps, arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_rollout(maps, **arguments)
