"""The module that puts out the first NaN is named, and nothing is left behind."""

import copy

import pytest
import torch
from torch import nn

from debuggers.first_non_finite import find_first_non_finite


class Logarithm(nn.Module):
    def forward(self, values):
        return values.log()


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Sequential(Logarithm(), nn.Dropout(0.5)), nn.Linear(8, 2)
    )


def test_the_innermost_module_is_named():
    model, inputs = network(), torch.randn(16, 4)

    assert find_first_non_finite(model, lambda: model(inputs)) == "2.0"


def test_finite_outputs_name_nothing():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    assert find_first_non_finite(model, lambda: model(torch.ones(2, 4))) is None


def test_buffers_random_numbers_mode_gradients_and_hooks_are_as_before():
    model, inputs = network(), torch.randn(16, 4)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()

    find_first_non_finite(model, lambda: model(inputs))

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_what_the_replay_raises_passes_and_leaves_no_hook():
    model = network()

    with pytest.raises(RuntimeError):
        find_first_non_finite(model, lambda: model(torch.ones(2, 5)))
    assert not any(module._forward_hooks for module in model.modules())
