"""SequentialDebugger watches the attention of layers and keeps it in pages."""

import warnings

import numpy as np
import pytest
import torch
from debugger_parts import entry
from torch import nn
from torch.nn import functional

from debuggers.attention import AttentionDebugger
from debuggers.page_files.loading import load_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger

B, HEADS, L, E = 2, 4, 6, 8


class Attention(nn.Module):
    def forward(self, values):
        split = values.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        output = functional.scaled_dot_product_attention(split, split, split, is_causal=True)
        return output.transpose(1, 2).flatten(2)


def sequential_run(model, layers, values, folder, **keywords):
    with SequentialDebugger(
        [entry(layer, AttentionDebugger, layer_name=layer) for layer in layers], model
    ) as sequential:
        sequential.begin_epoch(folder)
        output = model(values, **keywords)
        captures = sequential({"meta_info": {"idx": list(range(len(values)))}}, model)
        sequential.save_all()
    return output, captures


def test_a_page_holds_each_datapoints_map(tmp_path):
    model, values = nn.Sequential(nn.Linear(E, E), Attention()), torch.randn(B, L, E)
    output, captures = sequential_run(model, ["1"], values, tmp_path)
    page = load_page(tmp_path / "page_0.pkl")
    attention_map = captures["1"]["attention_map"].numpy()
    assert torch.equal(model(values), output)
    assert torch._C._len_torch_function_stack() == 0
    for idx in range(B):
        np.testing.assert_array_equal(page[idx]["1"]["attention_map"], attention_map[idx])
        assert page[idx]["1"]["attention_stats"]["attention_distribution"].shape == (HEADS, L)
        assert page[idx]["1"]["source"] == "scaled_dot_product_attention"


@pytest.mark.parametrize("padded", [False, True])
def test_the_attention_of_a_transformer_encoder_in_eval_mode(tmp_path, padded):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.TransformerEncoderLayer(E, HEADS, 16, batch_first=True)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    values, keywords = torch.randn(B, L, E), {}
    if padded:
        keywords["src_key_padding_mask"] = torch.arange(L)[None] >= torch.tensor([[L], [4]])
    with torch.no_grad():
        plain = model(values, **keywords)
        output, captures = sequential_run(model, ["layers.0.self_attn", "layers.1"], values, tmp_path, **keywords)
        own = model.layers[0].self_attn(
            values, values, values, average_attn_weights=False, key_padding_mask=keywords.get("src_key_padding_mask")
        )[1]
    torch.testing.assert_close(output, plain)
    torch.testing.assert_close(captures["layers.0.self_attn"]["attention_map"], own)
    assert "watch its MultiheadAttention ('self_attn')" in captures["layers.1"]["error"]


def test_a_type_of_layers_is_watched_wherever_it_is(tmp_path):
    model = nn.ModuleDict({"first": Attention(), "second": Attention()})
    model.forward = lambda values: model["second"](model["first"](values))
    with SequentialDebugger([entry("all", AttentionDebugger, layer_name=Attention)], model) as sequential:
        sequential.begin_epoch(tmp_path)
        model(torch.randn(B, L, E))
        captures = sequential({"meta_info": {"idx": [0, 1]}}, model)["all"]
    assert {name: capture["layer_name"] for name, capture in captures.items()} == {"first": "first", "second": "second"}
