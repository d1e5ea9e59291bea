"""Forward passes that belong to no training step leave what the first-NaN hooks keep alone, and are not disturbed."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_parts import Applies

from debuggers.first_nan.flight_recorder import NonFiniteWatch
from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.instrumentation.training_pass import is_training_forward


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def weights(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def gradients_by_datapoint(model):
    def loss(parameters, row):
        return torch.func.functional_call(model, parameters, (row,)).square().sum()

    return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights(model), torch.ones(3, 4))


def shapes_without_values(model):
    with FakeTensorMode(allow_non_fake_inputs=True):
        return model(torch.ones(3, 4))


OTHER_PASSES = {
    "vmap": lambda model: torch.vmap(model)(torch.ones(3, 4)),
    "gradients by datapoint": gradients_by_datapoint,
    "jvp": lambda model: torch.func.jvp(model, (torch.ones(3, 4),), (torch.ones(3, 4),)),
    "trace": lambda model: torch.jit.trace(model, torch.ones(3, 4)),
    "fake": shapes_without_values,
    "no_grad": lambda model: torch.no_grad()(model)(torch.ones(3, 4)),
}


@pytest.mark.parametrize("other", OTHER_PASSES.values(), ids=OTHER_PASSES)
def test_other_passes_run_as_without_hooks_and_nothing_of_them_is_kept(other):
    model = network()
    with NonFiniteWatch(model) as watch, ForwardCapture(model) as capture:
        model(torch.ones(5, 4))
        start, seen = capture.start, watch.history("0")
        other(model)

        assert capture.start is start
        assert watch.history("0") == seen
        assert len(seen) == 1


def test_an_output_whose_values_are_out_of_reach_is_left_out():
    def shape_of(values):
        with FakeTensorMode():
            return torch.empty(values.shape)

    model = nn.Sequential(Applies(shape_of), nn.Identity())
    with NonFiniteWatch(model) as watch:
        model(torch.ones(3, 4))

    assert watch.history("0") == watch.history("1") == []


def test_a_plain_forward_pass_is_one_of_a_training():
    assert is_training_forward()
