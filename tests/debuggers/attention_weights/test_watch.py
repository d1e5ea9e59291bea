"""Watching attention never changes what a layer computes."""

import warnings
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpointing
from torch.utils.checkpoint import checkpoint

from debuggers.attention import AttentionDebugger
from debuggers.attention_weights.watch import obstacle

E, HEADS, L = 8, 2, 6


class Attention(nn.Module):
    """Attention as most models write it today."""

    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, values):
        query, key, value = self.project(values).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        dropout = 0.2 if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Both kinds of attention, with dropout after each."""

    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.multihead = nn.MultiheadAttention(E, HEADS, dropout=0.3, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, values):
        values = values + self.dropout(self.attention(values))
        return values + self.dropout(self.multihead(values, values, values, need_weights=False)[0])


@contextmanager
def watching(model, *names):
    """Attaches a debugger to each of the layers, as SequentialDebugger does."""
    debuggers, handles, contexts = {}, [], []
    for name in names:
        debugger = debuggers[name] = AttentionDebugger(name)

        def before(module, args, kwargs, debugger=debugger):
            contexts.append(debugger.around_forward(module, args, kwargs) or nullcontext())
            contexts[-1].__enter__()

        def after(module, args, output, debugger=debugger):
            contexts.pop().__exit__(None, None, None)
            debugger.forward_hook_fn(module, args, output)

        layer = model.get_submodule(name)
        handles.append(layer.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(layer.register_forward_hook(after))
    try:
        yield debuggers
    finally:
        for handle in handles:
            handle.remove()


def run(names=(), forward=lambda model, values: model(values), context=nullcontext, train=True, dtype=torch.float32):
    """Everything that watching must not change, and what was captured."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block()).train(train).to(dtype)
    values = torch.randn(3, L, E).to(dtype)
    trail, captures = [], []
    with watching(model, *names) as debuggers:
        for _ in range(2):
            with context():
                output = forward(model, values)
            if output.requires_grad:
                output.float().square().sum().backward()
            trail += [output.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        captures = {name: debugger.last_capture for name, debugger in debuggers.items()}
    return [*trail, torch.get_rng_state()], captures


def checkpointed(use_reentrant):
    return lambda model, values: checkpoint(model, values.requires_grad_(), use_reentrant=use_reentrant)


def keep_products(context, operation, *args, **kwargs):
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)
    return (
        checkpointing.CheckpointPolicy.MUST_SAVE
        if operation in products
        else checkpointing.CheckpointPolicy.PREFER_RECOMPUTE
    )


def selectively_checkpointed(model, values):
    def contexts():
        return checkpointing.create_selective_checkpoint_contexts(keep_products)

    return checkpoint(model, values.requires_grad_(), use_reentrant=False, context_fn=contexts)


SETTINGS = {
    "training": {},
    "evaluation with gradients": {"train": False},
    "no_grad": {"train": False, "context": torch.no_grad},
    "inference_mode": {"train": False, "context": torch.inference_mode},
    "autocast": {"context": lambda: torch.autocast("cpu", dtype=torch.bfloat16)},
    "bfloat16": {"dtype": torch.bfloat16},
    "checkpoint": {"forward": checkpointed(use_reentrant=False)},
    "reentrant checkpoint": {"forward": checkpointed(use_reentrant=True)},
    "selective checkpoint": {"forward": selectively_checkpointed},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_outputs_gradients_and_random_numbers_are_bit_identical(setting):
    plain, _ = run(**SETTINGS[setting])
    names = ("0", "0.attention", "0.multihead", "1.attention")
    watched, captures = run(names, **SETTINGS[setting])
    assert len(plain) == len(watched)
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    for name in names[1:]:
        assert captures[name]["attention_map"].shape == (3, HEADS, L, L)
        assert captures[name]["attention_map"].dtype == torch.float32


def test_the_block_shows_both_of_its_attentions_while_it_trains():
    _, captures = run(("0", "0.attention", "0.multihead"))
    calls = captures["0"]["calls"]
    assert [call["source"] for call in calls.values()] == ["scaled_dot_product_attention", "multihead_attention"]
    assert torch.equal(calls["0"]["attention_map"], captures["0.attention"]["attention_map"])
    assert torch.equal(calls["1"]["attention_map"], captures["0.multihead"]["attention_map"])


def test_in_eval_mode_the_fused_kernel_keeps_running_and_the_reason_is_given():
    _, captures = run(("0", "0.multihead"), train=False, context=torch.no_grad)
    assert "fused kernel" in captures["0"]["error"]
    assert "'multihead'" in captures["0"]["error"]
    assert captures["0.multihead"]["source"] == "multihead_attention"


def test_a_transformer_encoder_in_eval_mode():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, HEADS, 16, batch_first=True), 1).eval()
    padding = torch.tensor([[False] * L, [False] * 4 + [True] * 2])
    with torch.no_grad(), watching(encoder, "layers.0") as debuggers:
        encoder(torch.randn(2, L, E), src_key_padding_mask=padding)
    assert "watch its MultiheadAttention ('self_attn')" in debuggers["layers.0"].last_capture["error"]


def test_no_mode_is_left_behind_when_the_layer_raises():
    layer, debugger = Attention(), AttentionDebugger("")
    with pytest.raises(RuntimeError), debugger.around_forward(layer, (), {}):
        layer(torch.ones(1, 2, 3))
    assert torch._C._len_torch_function_stack() == 0
    assert "was not watched" in debugger.process_forward(layer, (), ())["error"]


def test_a_compiled_part_is_an_obstacle():
    part = nn.Linear(E, E)
    assert obstacle(nn.Sequential(part)) == ""
    part.compile(backend="eager")
    assert "compiled" in obstacle(nn.Sequential(part))
    assert "compiled" in obstacle(nn.Sequential(torch.compile(Attention(), backend="eager")))


def test_calls_of_one_layer_nest():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.depth = 0

        def forward(self, values):
            self.depth += 1
            if self.depth < 3:
                values = torch.cat([self(values), values], -2)
            return functional.scaled_dot_product_attention(values, values, values)

    layer, captures = Nested(), []

    class Recording(AttentionDebugger):
        def process_forward(self, module, input, output):
            captures.append(super().process_forward(module, input, output))
            return captures[-1]

    model, debugger = nn.Sequential(layer), Recording("0")
    stack = []

    def before(module, args, kwargs):
        stack.append(debugger.around_forward(module, args, kwargs))
        stack[-1].__enter__()

    def after(module, args, output):
        stack.pop().__exit__(None, None, None)
        debugger.forward_hook_fn(module, args, output)

    layer.register_forward_pre_hook(before, with_kwargs=True)
    layer.register_forward_hook(after)
    model(torch.randn(1, 1, 2, 4))
    shapes = [
        [call["attention_map"].shape[-1] for call in capture.get("calls", {0: capture}).values()]
        for capture in captures
    ]
    assert shapes == [[2], [2, 4], [2, 4, 6]]
