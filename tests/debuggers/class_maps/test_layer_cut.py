"""A cut layer's output is a leaf, and the layers behind compute with the same values."""

import pytest
import torch
from torch import nn
from torch_parts import Applies

from debuggers.class_maps.layer_cut import LayerCut
from debuggers.errors import DebuggerConfigError


def test_the_output_is_the_same_and_hangs_on_the_leaf():
    layer, inputs = nn.Linear(3, 2), torch.randn(4, 3)
    cut = LayerCut()
    with cut.at(layer):
        output = layer(inputs)

    leaf = cut.leaf("layer")
    assert torch.equal(layer(inputs), output)
    assert leaf.is_leaf
    assert torch.equal(torch.ones(4, 2), torch.autograd.grad(output.sum(), leaf)[0])
    assert not layer._forward_hooks


def test_the_hook_is_gone_after_an_exception():
    layer = nn.Linear(3, 2)
    with pytest.raises(RuntimeError), LayerCut().at(layer):
        layer(torch.ones(5))
    assert not layer._forward_hooks


def test_memory_formats_are_kept():
    layer = nn.Conv2d(3, 4, 1).to(memory_format=torch.channels_last)
    with LayerCut().at(layer):
        output = layer(torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last))
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_only_the_first_tensor_is_replaced():
    first, second = torch.ones(2), torch.ones(3)
    layer, cut = Applies(lambda: {"name": "x", "tensors": [first, (second,)]}), LayerCut()
    with cut.at(layer):
        output = layer()

    assert output["tensors"][1][0] is second
    assert output["tensors"][0].requires_grad
    assert torch.equal(first, cut.leaf("layer"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "returned no tensor"),
        ({"a": [1, "b"]}, "returned no tensor"),
        (torch.ones(2, dtype=torch.int64), "torch.int64"),
        (torch.ones(2, dtype=torch.complex64), "torch.complex64"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.ones(2, device="meta"), "meta"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
    ],
)
def test_outputs_without_maps_are_refused(value, message):
    layer, cut = Applies(lambda: value), LayerCut()
    with cut.at(layer):
        layer()
    with pytest.raises(DebuggerConfigError, match=f"layer 'encoder'.*{message}"):
        cut.leaf("encoder")


def test_a_layer_that_did_not_run_is_refused():
    with pytest.raises(DebuggerConfigError, match="'encoder' did not run"):
        LayerCut().leaf("encoder")
