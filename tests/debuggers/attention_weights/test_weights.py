"""Weights computed from queries and keys are those of torch's scaled_dot_product_attention."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.weights import GivenWeights, scaled_dot_product

B, H, L, S, E = 2, 4, 5, 7, 8


def all_weights(weights):
    return weights.block(0, weights.shape[-2])


def softmax(query, key, bias=0.0, scale=None):
    """The formula, in float64; a row without finite scores is zero."""
    query, key = query.double(), key.double()
    scores = torch.einsum("...ie,...je->...ij", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores + bias
    powers = (scores - scores.amax(-1, keepdim=True).clamp_min(-1e300)).exp()
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-300)


def tensors(*, keys=S, key_heads=H, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(B, H, L, E, generator=generator).to(dtype)
    key = torch.randn(B, key_heads, keys, E, generator=generator).to(dtype)
    value = torch.randn(B, key_heads, keys, E, generator=generator).to(dtype)
    return query, key, value


def hidden(keep):
    return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf)


TRIANGLE = torch.ones(L, S, dtype=torch.bool).tril()
KEEP = torch.rand(B, 1, L, S, generator=torch.Generator().manual_seed(3)) > 0.3
ADDED = torch.randn(H, L, S, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(
    ("arguments", "bias"),
    [
        ({}, 0.0),
        ({"scale": 0.3}, 0.0),
        ({"is_causal": True}, hidden(TRIANGLE)),
        ({"attn_mask": TRIANGLE}, hidden(TRIANGLE)),
        ({"attn_mask": KEEP}, hidden(KEEP)),
        ({"attn_mask": KEEP[:, :, :1]}, hidden(KEEP[:, :, :1])),
        ({"attn_mask": ADDED}, ADDED.double()),
        ({"attn_mask": causal_upper_left(L, S)}, hidden(TRIANGLE)),
        ({"attn_mask": causal_lower_right(L, S)}, hidden(torch.ones(L, S, dtype=torch.bool).tril(S - L))),
        ({"dropout_p": 0.5}, 0.0),
    ],
)
def test_they_are_the_softmax_of_the_scaled_and_masked_scores(arguments, bias):
    query, key, value = tensors()
    weights = all_weights(scaled_dot_product(query, key, value, **arguments))
    torch.testing.assert_close(weights.double(), softmax(query, key, bias, arguments.get("scale")), rtol=0, atol=1e-6)
    if "dropout_p" not in arguments:
        output = functional.scaled_dot_product_attention(query, key, value, **arguments)
        torch.testing.assert_close(weights @ value, output, rtol=0, atol=2e-6)


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_heads_share_keys_under_grouped_query_attention(key_heads):
    query, key, value = tensors(key_heads=key_heads)
    weights = all_weights(scaled_dot_product(query, key, value, enable_gqa=True))
    repeated = key.repeat_interleave(H // key_heads, 1)
    torch.testing.assert_close(weights.double(), softmax(query, repeated), rtol=0, atol=1e-6)


def test_a_fully_masked_query_attends_to_nothing():
    query, key, value = tensors()
    keep = torch.ones(L, S, dtype=torch.bool)
    keep[2] = False
    weights = all_weights(scaled_dot_product(query, key, value, keep))
    assert weights[:, :, 2].abs().max() == 0
    torch.testing.assert_close(weights[:, :, [0, 1, 3, 4]].sum(-1), torch.ones(B, H, 4))
    output = functional.scaled_dot_product_attention(query, key, value, keep)
    torch.testing.assert_close(weights @ value, output, rtol=0, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_they_are_computed_in_float32_or_wider(dtype):
    query, key, value = tensors(dtype=dtype)
    weights = all_weights(scaled_dot_product(query, key, value))
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(weights.double(), softmax(query, key), rtol=0, atol=1e-6)


def test_half_precision_scores_do_not_overflow():
    query = torch.full((1, 1, 1, E), 200.0, dtype=torch.float16)
    weights = all_weights(scaled_dot_product(query, torch.cat([query, -query], 2), query))
    assert weights.flatten().tolist() == [1, 0]


def test_nan_stays_in_its_row():
    query, key, value = tensors()
    query[0, 1, 2, 3] = math.nan
    weights = all_weights(scaled_dot_product(query, key, value))
    assert weights[0, 1, 2].isnan().all()
    assert weights.isnan().sum() == S


@settings(deadline=None)
@given(rows=st.integers(1, 9), keys=st.integers(1, 9), step=st.integers(1, 9), causal=st.booleans())
def test_blocks_of_queries_are_parts_of_the_whole(rows, keys, step, causal):
    query, key = torch.randn(2, rows, 3), torch.randn(2, keys, 3)
    mask = None if causal else torch.rand(rows, keys) > 0.5
    weights = scaled_dot_product(query, key, key, mask, is_causal=causal)
    blocks = torch.cat([weights.block(start, start + step) for start in range(0, rows, step)], -2)
    torch.testing.assert_close(blocks, all_weights(weights), rtol=0, atol=1e-6)
    assert weights.shape == tuple(blocks.shape)


@pytest.mark.parametrize(("leading", "per_head"), [((), False), ((2,), False), ((2, 3), True), ((2, 3, 4), True)])
def test_four_dimensions_have_heads(leading, per_head):
    query = torch.randn(*leading, 5, 4)
    computed, returned = scaled_dot_product(query, query, query), GivenWeights(torch.rand(*leading, 5, 5))
    assert (computed.per_head, returned.per_head) == (per_head, per_head)
    assert computed.shape == returned.shape == (*leading, 5, 5)


def test_a_single_row_of_weights_is_one_query():
    weights = GivenWeights(torch.tensor([0.25, 0.75]))
    assert weights.shape == (1, 2)
    assert all_weights(weights).tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize("values", [None, torch.tensor(1.0), torch.ones(2, 2, dtype=torch.int64)])
def test_what_cannot_be_weights_is_refused(values):
    with pytest.raises(ArtifactError, match="expected attention weights"):
        GivenWeights(values)


@pytest.mark.parametrize("kind", ["meta", "nested", "sparse"])
def test_tensors_without_plain_values_are_refused(kind):
    tensor = {
        "meta": lambda: torch.ones(2, 3, 4, device="meta"),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)]),
        "sparse": lambda: torch.eye(4).to_sparse(),
    }[kind]()
    with pytest.raises(ArtifactError, match=kind):
        scaled_dot_product(tensor, tensor, tensor)


@pytest.fixture
def one_rank(process_group):
    return DeviceMesh("cpu", [0])


def test_a_distributed_tensor_may_be_split_by_datapoint_or_head(one_rank):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    query, key, value = tensors()
    expected = all_weights(scaled_dot_product(query, key, value))
    for placement in (Replicate(), Shard(0), Shard(1)):
        split = [distribute_tensor(tensor, one_rank, [placement]) for tensor in (query, key, value)]
        assert torch.equal(expected, all_weights(scaled_dot_product(*split)))
    for placement in (Shard(2), Shard(3)):
        split = distribute_tensor(query, one_rank, [placement])
        with pytest.raises(ArtifactError, match="on one rank"):
            scaled_dot_product(split, key, value)
