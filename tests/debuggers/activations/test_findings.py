"""NaN and infinities of activations are reported; -inf that only masks is not."""

import math

import pytest
import torch
from torch import nn
from torch_parts import Applies

from debuggers.activations.monitor import ActivationMonitor


def mask(scores):
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)


class Constant(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, values):
        return torch.full_like(values, self.value) + 0.0 * values.detach().nan_to_num()


def found(model, steps=1, change=lambda number: None):
    """The reported names, with their first step."""
    monitor = ActivationMonitor(model, on_error="raise")
    for number in range(steps):
        change(number)
        with monitor.step(number), torch.enable_grad():
            model(-torch.eye(4).requires_grad_())
    monitor.close()
    return [(finding.name, finding.step) for finding in monitor.findings() if finding.kind == "non_finite_activation"]


def test_a_mask_that_softmax_takes_up_is_no_finding():
    assert found(nn.Sequential(nn.Linear(4, 4), Applies(mask), nn.Softmax(-1), nn.Linear(4, 4)), steps=3) == []


def test_minus_infinity_that_becomes_nan_is_reported_with_it():
    log, times_zero = Applies(lambda values: values.clamp_min(0.0).log()), Applies(lambda values: values * 0.0)
    assert found(nn.Sequential(log, times_zero)) == [("0", 0), ("1", 0)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_mask_is_not_blamed_for_what_breaks_later(value):
    model = nn.Sequential(Applies(mask), nn.Softmax(-1), Constant(1.0))

    def change(number):
        model[2].value = value if number == 2 else 1.0

    assert found(model, 3, change) == [("2", 2)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_plus_infinity_are_reported_at_once(value):
    assert found(nn.Sequential(nn.Linear(4, 4), Constant(value))) == [("1", 0)]
