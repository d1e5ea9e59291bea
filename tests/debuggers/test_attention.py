"""The attention debugger finds a layer's attention weights, wherever they come from."""

import math
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional
from torch_parts import Applies
from waiting import in_threads

from debuggers.attention import AttentionDebugger
from debuggers.errors import DebuggerConfigError

B, HEADS, L, E = 2, 4, 6, 8


class Attention(nn.Module):
    def __init__(self, returns=lambda output, weights: output, **arguments):
        super().__init__()
        self.returns, self.arguments = returns, arguments

    def forward(self, values):
        split = values.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        output = functional.scaled_dot_product_attention(split, split, split, **self.arguments)
        weights = (split @ split.mT * split.shape[-1] ** -0.5).softmax(-1)
        return self.returns(output.transpose(1, 2).flatten(2), weights)


def capture(layer, *inputs, watch=True, max_elements=2**22, **keywords):
    debugger = AttentionDebugger("layer", max_elements=max_elements)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if watch:
            with debugger.around_forward(layer, inputs, keywords):
                output = layer(*inputs, **keywords)
        else:
            output = layer(*inputs, **keywords)
        debugger.forward_hook_fn(layer, inputs, output)
    return debugger.last_capture


def weights_of(values):
    split = values.double().unflatten(-1, (HEADS, -1)).transpose(1, 2)
    return torch.einsum("bhie,bhje->bhij", split, split).div(math.sqrt(E / HEADS)).softmax(-1)


def test_the_keys():
    result = capture(nn.Softmax(-1), torch.randn(B, HEADS, L, L))
    assert set(result) == {"attention_map", "attention_stats", "layer_name", "source"}
    assert {"entropy", "max_attention", "attention_distribution"} <= set(result["attention_stats"])
    assert (result["layer_name"], result["source"]) == ("layer", "output")


def test_a_layer_that_outputs_weights():
    scores = torch.randn(B, HEADS, L, L)
    result = capture(nn.Softmax(-1), scores, watch=False)
    assert torch.equal(scores.softmax(-1), result["attention_map"])
    assert result["attention_stats"]["entropy"] == pytest.approx(
        torch.distributions.Categorical(logits=scores.double()).entropy().mean().item(), rel=1e-5
    )
    assert result["attention_stats"]["max_attention"] == scores.softmax(-1).max().item()


@pytest.mark.parametrize(
    "returns",
    [
        lambda output, weights: (output, weights),
        lambda output, weights: {"hidden": output, "attn": weights},
        lambda output, weights: SimpleNamespace(hidden=output, attention_weights=weights),
    ],
)
def test_a_layer_that_returns_weights_beside_its_result(returns):
    values = torch.randn(B, L, E)
    result = capture(Attention(returns), values)
    assert result["source"] == "returned"
    torch.testing.assert_close(result["attention_map"].double(), weights_of(values), rtol=0, atol=1e-6)


def test_a_layer_that_returns_the_weights_of_several_layers():
    result = capture(
        Attention(lambda output, weights: {"attentions": (weights, weights.mean(1))}), torch.randn(B, L, E)
    )
    assert result["layer_name"] == "layer"
    assert list(result["calls"]) == ["attentions_0", "attentions_1"]
    assert result["calls"]["attentions_0"]["attention_map"].shape == (B, HEADS, L, L)
    assert "entropy_per_head" not in result["calls"]["attentions_1"]["attention_stats"]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_multihead_attention_layer(need_weights, training):
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True).train(training)
    values = torch.randn(B, L, E)
    with torch.set_grad_enabled(training):
        result = capture(layer, values, key=values, value=values, need_weights=need_weights)
        own = layer(values, values, values, average_attn_weights=False)[1]
    assert result["source"] == "multihead_attention"
    torch.testing.assert_close(result["attention_map"], own, rtol=0, atol=1e-6)
    assert len(result["attention_stats"]["entropy_per_head"]) == HEADS


def test_an_unwatched_multihead_attention_layer_shows_what_it_returned():
    layer, values = nn.MultiheadAttention(E, HEADS, batch_first=True), torch.randn(B, L, E)
    assert capture(layer, values, values, values, watch=False)["attention_map"].shape == (B, L, L)
    assert "was not watched" in capture(layer, values, values, values, watch=False, need_weights=False)["error"]


@pytest.mark.parametrize("arguments", [{}, {"is_causal": True}, {"attn_mask": torch.rand(L, L) > 0.2}])
def test_a_layer_that_calls_scaled_dot_product_attention(arguments):
    values = torch.randn(B, L, E)
    result = capture(nn.Sequential(nn.Identity(), Attention(**arguments)), values)
    split = values.unflatten(-1, (HEADS, -1)).transpose(1, 2)
    output = functional.scaled_dot_product_attention(split, split, split, **arguments)
    assert result["source"] == "scaled_dot_product_attention"
    torch.testing.assert_close(result["attention_map"] @ split, output, rtol=0, atol=1e-5)


def test_every_call_inside_the_layer_is_kept():
    values = torch.randn(B, L, E)
    result = capture(nn.Sequential(Attention(), Attention(is_causal=True)), values)
    assert list(result) == ["calls", "layer_name"]
    first, second = result["calls"].values()
    torch.testing.assert_close(first["attention_map"].double(), weights_of(values), rtol=0, atol=1e-6)
    assert second["attention_map"].triu(1).max() == 0


def test_later_changes_do_not_reach_the_capture():
    def change_queries(values):
        output = functional.scaled_dot_product_attention(values, values, values)
        values.zero_()
        return output

    values = torch.randn(B, HEADS, L, E)
    expected = (values @ values.mT * E**-0.5).softmax(-1)
    torch.testing.assert_close(capture(Applies(change_queries), values)["attention_map"], expected)


def test_a_large_map_is_measured_and_left_out():
    values = torch.randn(B, L, E)
    whole, limited = capture(Attention(), values), capture(Attention(), values, max_elements=100)
    assert limited["attention_map"] is None
    assert limited["left_out"].startswith("attention_map: 2 x 4 x 6 x 6 values, of which max_elements=100")
    for name, expected in whole["attention_stats"].items():
        np.testing.assert_allclose(limited["attention_stats"][name], expected, rtol=1e-5)


def test_the_limit_is_for_all_maps_of_a_call():
    layer = nn.Sequential(Attention(), Attention(), Attention())
    size = B * HEADS * L * L
    calls = capture(layer, torch.randn(B, L, E), max_elements=2 * size)["calls"]
    assert [call["attention_map"] is None for call in calls.values()] == [False, False, True]


@pytest.mark.parametrize("max_elements", [-1, 1.5, True, None])
def test_a_wrong_limit_is_named(max_elements):
    with pytest.raises(DebuggerConfigError, match=f"max_elements is {max_elements}"):
        AttentionDebugger("layer", max_elements=max_elements)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (None, "no attention weights: the Applies returned none"),
        ((torch.randn(B, L, E), None), "called no scaled_dot_product_attention"),
        (torch.randn(B, L, E), "negative values"),
        (torch.ones(2, 2, dtype=torch.int64), "floating point"),
        (torch.tensor(1.0), "0-d"),
        (torch.ones(2, 2, device="meta"), "meta"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 3)]), "nested"),
    ],
)
def test_without_weights_the_reason_is_given(output, reason):
    result = capture(Applies(lambda: output))
    assert list(result) == ["error"]
    assert reason in result["error"]


def test_an_output_that_cannot_be_searched_is_reported():
    class Broken:
        @property
        def attentions(self):
            raise RuntimeError("on purpose")

    assert "RuntimeError: on purpose" in capture(Applies(Broken))["error"]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_reported(layout):
    parts = [torch.randn(2, HEADS, E), torch.randn(3, HEADS, E)]
    if layout == torch.jagged:
        values = torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2)
    else:
        values = torch.nested.nested_tensor([part.transpose(0, 1).contiguous() for part in parts])

    layer = Applies(lambda values: functional.scaled_dot_product_attention(values, values, values))
    assert "nested" in capture(layer, values)["error"]


def test_nested_tensors_on_the_fast_path_are_reported():
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True).eval()
    values = torch.nested.nested_tensor([torch.randn(2, E), torch.randn(3, E)])
    with torch.no_grad():
        assert "nested" in capture(layer, values, values, values, need_weights=False)["error"]


@pytest.mark.parametrize("kind", ["meta", "FakeTensor"])
def test_inputs_without_values_are_reported(kind):
    with FakeTensorMode() if kind == "FakeTensor" else torch.device("meta"):
        assert kind in capture(Attention(), torch.randn(B, L, E))["error"]


def test_calls_inside_a_function_transformation_are_reported():
    captures = []

    def loss(values):
        captures.append(capture(Attention(), values))
        return values.sum()

    torch.func.grad(loss)(torch.randn(B, L, E))
    assert "torch.func" in captures[0]["error"]


def test_nan_and_fully_masked_queries_are_counted():
    keep = torch.ones(L, L, dtype=torch.bool)
    keep[1] = False
    statistics = capture(Attention(attn_mask=keep), torch.randn(B, L, E))["attention_stats"]
    assert (statistics["masked_rows"], statistics["non_finite_rows"]) == (B * HEADS, 0)
    values = torch.randn(B, L, E)
    values[0, 0] = math.nan
    statistics = capture(Attention(), values)["attention_stats"]
    assert (statistics["masked_rows"], statistics["non_finite_rows"]) == (0, HEADS * L)
    assert math.isnan(statistics["entropy"])


def test_threads_do_not_mix_their_calls():
    debugger, captures = AttentionDebugger("layer"), {}
    barrier = threading.Barrier(2, timeout=60)

    def work(length):
        layer, values = Attention(), torch.randn(1, length, E)
        with debugger.around_forward(layer, (values,), {}):
            output = layer(values)
        barrier.wait()
        captures[length] = debugger.process_forward(layer, (values,), output)["attention_map"].shape

    in_threads(work, (3, 5))
    assert captures == {3: (1, HEADS, 3, 3), 5: (1, HEADS, 5, 5)}


def test_one_picture_for_each_map():
    debugger, values = AttentionDebugger("layer"), torch.randn(B, L, E)
    (picture,) = debugger.pictures(capture(Attention(), values), {})
    assert (picture.name, picture.values.shape) == ("attention_map", (73, 73))
    pictures = list(debugger.pictures(capture(nn.Sequential(Attention(), Attention()), values), {}))
    assert [picture.name for picture in pictures] == ["attention_map_0", "attention_map_1"]


def test_captures_without_maps_make_no_picture():
    debugger = AttentionDebugger("layer")
    assert list(debugger.pictures({"error": "nothing"}, {})) == []
    assert list(debugger.pictures(capture(Attention(), torch.randn(B, L, E), max_elements=0), {})) == []
    assert list(debugger.pictures(capture(Attention(), torch.randn(B, 0, E)), {})) == []
