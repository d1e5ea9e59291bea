"""Forward times by layer, on request: every call is there, and nothing stays on the model."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers.errors import ArgumentTypeError, DebuggerConfigError


class Twice(nn.Module):
    """Uses one of its layers twice."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(256, 256)
        self.norm = nn.BatchNorm1d(256)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.wide(self.wide(x))))


def test_each_call_of_a_layer_is_measured_and_training_goes_on_as_before():
    net, inputs = Twice(), torch.ones(64, 256)
    before, random_state = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in net.modules()]
    with stepscope.DebugSession(net, torch.optim.SGD(net.parameters(), lr=0.1)) as session:
        session.profiler.measure_forward(inputs, repeats=3)
        layers = {layer.name: layer for layer in session.profiler.layers}

    assert {name: layer.count for name, layer in layers.items()} == {"wide": 6, "norm": 3, "drop": 3}
    assert all(layer.forward_s > 0 and layer.backward_count == 0 for layer in layers.values())
    assert (layers["wide"].kind, layers["wide"].parameters) == ("Linear", 256 * 256 + 256)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert hooks == [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in net.modules()]


def test_without_a_model_or_with_a_wrong_number_of_repeats_there_is_a_clear_error():
    with pytest.raises(ArgumentTypeError, match="no model"):
        stepscope.debug_session().profiler.measure_forward(torch.ones(1))
    with pytest.raises(DebuggerConfigError, match="repeats is 0; expected an integer of at least 1"):
        stepscope.DebugSession(Twice()).profiler.measure_forward(torch.ones(64, 256), repeats=0)
