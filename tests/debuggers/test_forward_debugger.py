"""A forward debugger captures one layer's output as it was when the layer ran."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils import checkpoint as checkpointing
from torch.utils.checkpoint import checkpoint
from torch_parts import freed_tensor

from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger


class Raw(ForwardDebugger):
    def __init__(self, layer_name="0"):
        super().__init__(layer_name)
        self.calls = 0

    def process_forward(self, module, input, output):
        self.calls += 1
        return {"output": output, "grad_enabled": torch.is_grad_enabled(), "inputs": len(input)}


def test_it_is_abstract():
    with pytest.raises(TypeError, match="process_forward"):
        ForwardDebugger("0")


def test_nothing_is_captured_before_the_layer_runs():
    debugger = Raw("0")
    assert debugger.layer_name == "0"
    assert debugger.last_capture is None
    assert debugger({}, nn.Identity()) is None


def test_it_captures_without_gradients():
    layer, debugger = nn.Linear(3, 2), Raw()
    layer.register_forward_hook(debugger.forward_hook_fn)
    output = layer(torch.ones(1, 3))
    capture = debugger({}, layer)
    assert capture is debugger.last_capture
    assert torch.equal(output, capture["output"])
    assert not capture["output"].requires_grad
    assert capture["grad_enabled"] is False
    assert capture["inputs"] == 1
    assert output.requires_grad


def test_a_later_in_place_layer_does_not_reach_the_capture():
    model, debugger = nn.Sequential(nn.Linear(3, 8), nn.ReLU(inplace=True)), Raw()
    model[0].register_forward_hook(debugger.forward_hook_fn)
    batch = torch.randn(4, 3)
    model(batch)
    assert torch.equal(nn.functional.linear(batch, model[0].weight, model[0].bias), debugger.last_capture["output"])


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputation_under_activation_checkpointing_is_not_a_call(use_reentrant):
    layer, debugger = nn.Linear(3, 3), Raw()
    layer.register_forward_hook(debugger.forward_hook_fn)
    checkpoint(layer, torch.ones(1, 3, requires_grad=True), use_reentrant=use_reentrant).sum().backward()
    assert debugger.calls == 1
    assert layer.weight.grad is not None


class Squashed(Raw):
    def process_forward(self, module, input, output):
        return {"squashed": torch.tanh(2 * output)}


def test_selective_checkpointing_does_not_see_what_a_debugger_computes():
    """Its cache of results counts operations: one more in the first forward would shift all others."""
    torch.manual_seed(0)
    layer, values = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)), torch.randn(4, 3)

    def contexts():
        return checkpointing.create_selective_checkpoint_contexts(
            lambda context, op, *args, **kwargs: checkpointing.CheckpointPolicy.MUST_SAVE
        )

    def gradients():
        output = checkpoint(layer, values, use_reentrant=False, context_fn=contexts)
        return torch.autograd.grad(output.sum(), list(layer.parameters()))

    plain, debugger = gradients(), Squashed()
    layer[0].register_forward_hook(debugger.forward_hook_fn)
    assert all(map(torch.equal, plain, gradients()))
    assert torch.equal(debugger.last_capture["squashed"], torch.tanh(2 * layer[0](values)))


def test_an_output_whose_memory_was_freed_is_not_copied():
    layer, debugger = nn.Identity(), Raw()
    layer.register_forward_hook(debugger.forward_hook_fn)
    layer(freed_tensor(3))
    assert debugger.last_capture["output"].shape == (3,)


def test_by_default_nothing_is_open_around_a_forward():
    layer = nn.Linear(3, 2)
    assert Raw().around_forward(layer, (torch.ones(1, 3),), {}) is None


@pytest.mark.parametrize("layer_name", ["backbone.*", "re:.*conv", nn.Conv2d])
def test_it_may_be_made_for_several_layers(layer_name):
    debugger = Raw(layer_name)
    assert (debugger.layer_name, debugger.missing_ok) == (layer_name, False)


class Keeping(ForwardDebugger):
    returns_copies = True

    def process_forward(self, module, input, output):
        self.made = output.detach().clone()
        return {"output": self.made}


class WithInput(Keeping):
    def process_forward(self, module, input, output):
        return {**super().process_forward(module, input, output), "input": input[0]}


def test_what_is_a_copy_already_is_kept_as_it_is():
    debugger = Keeping("0")
    debugger.forward_hook_fn(nn.Identity(), (), torch.ones(3))
    assert debugger.last_capture["output"] is debugger.made


def test_a_subclass_that_adds_something_has_to_promise_its_copies_anew():
    tensor = torch.ones(3)
    debugger = WithInput("0")
    debugger.forward_hook_fn(nn.Identity(), (tensor,), tensor)
    tensor.zero_()
    assert debugger.last_capture["input"].tolist() == debugger.last_capture["output"].tolist() == [1, 1, 1]


def test_a_debugger_that_was_used_can_be_copied_and_pickled_without_what_it_captured():
    debugger = FeatureMapDebugger("layer")
    debugger.forward_hook_fn(nn.ReLU(), (), torch.ones(2))
    for twin in (copy.deepcopy(debugger), pickle.loads(pickle.dumps(debugger))):
        assert (twin.layer_name, twin.last_capture) == ("layer", None)
    assert debugger.last_capture["feature_map"].tolist() == [1, 1]


def test_the_last_capture_is_that_of_the_thread():
    debugger = FeatureMapDebugger("layer")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(debugger.forward_hook_fn, nn.ReLU(), (), torch.ones(2)).result(30)
        assert pool.submit(debugger, {}, nn.ReLU()).result(30)["stats"]["mean"] == 1
    assert debugger.last_capture is None


def test_the_name_of_a_layer_is_given_for_a_while_and_in_one_thread():
    debugger = FeatureMapDebugger("layer*")
    with debugger.at_layer("layer1"), ThreadPoolExecutor(1) as pool:
        assert debugger.layer_name == "layer1"
        assert pool.submit(lambda: debugger.layer_name).result(30) == "layer*"
    assert debugger.layer_name == "layer*"
