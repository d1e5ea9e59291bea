"""The weights of nn.MultiheadAttention, recomputed head by head, are its own."""

import itertools
import math

import pytest
import torch
from torch import nn
from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.multihead import is_multihead_attention, may_take_fast_path, module_weights
from debuggers.attention_weights.weights import GivenWeights

B, L, S, E, HEADS = 2, 5, 6, 8, 2
GENERATOR = torch.Generator().manual_seed(0)
MASKS = {
    "none": {},
    "bool": {"attn_mask": torch.ones(L, S, dtype=torch.bool).triu(1)},
    "float": {"attn_mask": torch.randn(L, S, generator=GENERATOR)},
    "per head": {"attn_mask": torch.rand(B * HEADS, L, S, generator=GENERATOR) > 0.7},
    "padding": {"key_padding_mask": torch.tensor([[False] * 4 + [True] * 2, [False] * S])},
    "float padding": {"key_padding_mask": torch.randn(B, S, generator=GENERATOR)},
    "both": {
        "attn_mask": torch.ones(L, S, dtype=torch.bool).triu(1),
        "key_padding_mask": torch.tensor([[False] * 4 + [True] * 2, [False] * S]),
    },
}
OPTIONS = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"kdim": 4, "vdim": 3},
    {"kdim": 4, "bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]


def attention(**options):
    torch.manual_seed(1)
    module = nn.MultiheadAttention(E, HEADS, **options)
    if module.in_proj_bias is not None:
        nn.init.normal_(module.in_proj_bias)
    return module


def inputs(module, batched=True):
    shapes = [(L, E), (S, module.kdim), (S, module.vdim)]
    tensors = [torch.randn(length, B, size) if batched else torch.randn(length, size) for length, size in shapes]
    return tuple(tensor.transpose(0, 1) if batched and module.batch_first else tensor for tensor in tensors)


def own_weights(module, arguments, keywords):
    return module(*arguments, **keywords, need_weights=True, average_attn_weights=False)[1]


def computed(module, arguments, keywords):
    weights = module_weights(module, arguments, keywords, module(*arguments, **keywords))
    return weights.block(0, weights.shape[-2])


@pytest.mark.parametrize(("options", "mask"), list(itertools.product(OPTIONS, MASKS)))
def test_they_are_the_modules_own(options, mask):
    module = attention(**options)
    arguments, keywords = inputs(module), {**MASKS[mask], "need_weights": False}
    own = own_weights(module, arguments, MASKS[mask])
    torch.testing.assert_close(computed(module, arguments, keywords), own, rtol=0, atol=1e-6)
    assert own.shape[:3] == (B, HEADS, L)


@pytest.mark.parametrize("mask", ["none", "bool", "float"])
@pytest.mark.parametrize("options", OPTIONS)
def test_without_a_batch_the_first_dimension_is_the_heads(options, mask):
    module = attention(**options)
    arguments, keywords = inputs(module, batched=False), MASKS[mask]
    weights = computed(module, arguments, {**keywords, "need_weights": False})
    torch.testing.assert_close(weights, own_weights(module, arguments, keywords), rtol=0, atol=1e-6)
    assert weights.shape[:2] == (HEADS, L)


def test_padding_without_a_batch():
    module = attention()
    arguments, keywords = inputs(module, batched=False), {"key_padding_mask": torch.tensor([False] * 4 + [True] * 2)}
    weights = computed(module, arguments, {**keywords, "need_weights": False})
    torch.testing.assert_close(weights, own_weights(module, arguments, keywords), rtol=0, atol=1e-6)


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_fast_path_of_eval_mode_is_no_obstacle(need_weights):
    module = attention(batch_first=True).eval()
    values = torch.randn(B, L, E)
    with torch.no_grad():
        weights = computed(module, (values, values, values), {"need_weights": need_weights})
        own = own_weights(module, (values, values, values), {})
    torch.testing.assert_close(weights, own, rtol=0, atol=1e-6)


def test_maps_that_the_module_returns_head_by_head_are_taken():
    module = attention()
    arguments, keywords = inputs(module), {"average_attn_weights": False}
    output = module(*arguments, **keywords)
    weights = module_weights(module, arguments, keywords, output)
    assert weights.source == "returned"
    assert weights.per_head
    assert torch.equal(output[1], weights.block(0, L))


def test_an_average_over_heads_and_dropped_weights_are_computed_anew():
    for module, keywords in [(attention(), {}), (attention(dropout=0.5), {"average_attn_weights": False})]:
        arguments = inputs(module)
        weights = module_weights(module, arguments, keywords, module(*arguments, **keywords))
        assert (weights.source, weights.shape) == ("multihead_attention", (B, HEADS, L, S))
        own = own_weights(module.eval(), arguments, {})
        torch.testing.assert_close(weights.block(0, L), own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("fast", [False, True])
def test_fully_masked_queries_are_what_the_module_makes_of_them(need_weights, fast):
    module = attention(batch_first=True).train(not fast)
    values = torch.randn(B, L, E)
    keywords = {"key_padding_mask": torch.tensor([[True] * L, [False] * L]), "need_weights": need_weights}
    with torch.set_grad_enabled(not fast):
        output, _ = module(values, values, values, **keywords)
        weights = computed(module, (values, values, values), keywords)
    assert weights[0].isnan().all() == output[0].isnan().all()
    assert weights[0].isnan().all() or not weights[0].any()
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(HEADS, L))


def test_bfloat16_inputs_are_computed_in_float32():
    module = attention().bfloat16()
    arguments = tuple(tensor.bfloat16() for tensor in inputs(module))
    weights = computed(module, arguments, {"need_weights": False})
    wide = own_weights(attention().bfloat16().float(), tuple(tensor.float() for tensor in arguments), {})
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, wide, rtol=0, atol=1e-6)


def test_a_parametrized_module_is_not_read():
    module = nn.utils.parametrizations.spectral_norm(attention(), "in_proj_weight")
    arguments = inputs(module)
    output = module(*arguments)
    before = [buffer.clone() for buffer in module.buffers()]
    weights = module_weights(module, arguments, {}, output)
    assert (weights.source, weights.per_head, weights.shape) == ("returned", False, (B, L, S))
    with pytest.raises(ArtifactError, match="parametrized"):
        module_weights(module, arguments, {"need_weights": False}, (output[0], None))
    assert all(torch.equal(one, other) for one, other in zip(before, module.buffers(), strict=True))


class Changed(nn.MultiheadAttention):
    def forward(self, query, key, value):
        return super().forward(query, key, value * 2)


def test_only_an_unchanged_forward_is_recomputed():
    assert is_multihead_attention(attention())
    assert not is_multihead_attention(Changed(E, HEADS))
    assert not is_multihead_attention(nn.Linear(2, 2))
    patched = attention()
    patched.forward = patched.forward
    assert not is_multihead_attention(patched)


def test_the_fast_path_needs_eval_mode_and_no_gradient():
    layer = nn.TransformerEncoderLayer(E, HEADS, batch_first=True).eval()
    assert not may_take_fast_path(layer)
    assert not may_take_fast_path(nn.Linear(2, 2).eval())
    with torch.no_grad():
        assert may_take_fast_path(layer)
        assert may_take_fast_path(layer.self_attn)
        assert not may_take_fast_path(layer.train())
    assert may_take_fast_path(layer.eval().requires_grad_(False))


def test_a_given_map_is_not_copied():
    values = torch.rand(2, 3, 4)
    assert GivenWeights(values).block(0, 3).data_ptr() == values.data_ptr()
    assert math.prod(GivenWeights(values).shape) == 24
