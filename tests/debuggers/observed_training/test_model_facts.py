"""What is known of a model's parameters at its first step."""

import pytest
import torch
from torch import nn

from debuggers.gradients.parameters import Parameters
from debuggers.observed_training.model_facts import InitialParameters


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_is_known_of_weights_that_are_not_finite(value):
    model = nn.Linear(4, 8)
    with torch.no_grad():
        model.weight[2, 1] = value

    weight, bias = InitialParameters(Parameters(model)).facts({})

    assert (weight.is_sampled, weight.mean, weight.std) == (False, 0.0, 0.0)
    assert bias.is_sampled
    assert bias.std == pytest.approx(float(model.bias.std(correction=0)))
