"""What is known of a step's update from a few elements of each parameter."""

import numpy as np
import pytest
import torch
from torch import nn

import stepscope


def train(dtype, rate):
    """The evidence of a few steps whose gradients are all ones, and zero for the first row of weights."""
    torch.manual_seed(0)
    model = nn.Linear(8, 4, bias=False).to(dtype)
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    rows = torch.ones(1, 8, dtype=dtype)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(5):
            optimizer.zero_grad()
            model(rows)[:, 1:].sum().backward()
            optimizer.step()
    return session.evidence()


@pytest.mark.parametrize(
    ("dtype", "rate", "share"),
    [(torch.bfloat16, 2**-10, 1.0), (torch.bfloat16, 2**-7, 0.0), (torch.float16, 2**-13, 1.0)],
)
def test_the_share_of_updates_that_are_rounded_away_is_that_of_elements_with_a_gradient(dtype, rate, share):
    np.testing.assert_array_equal(train(dtype, rate)["rounded_away"].values, [share] * 5)


def test_of_float32_it_is_not_asked():
    assert not len(train(torch.float32, 1e-9)["rounded_away"])


def _partly_frozen(change):
    """The norms of a model's weights as recorded, and as they were at those steps.

    ``change`` acts before each step.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            optimizer.zero_grad()
            model(torch.randn(5, 8)).square().mean().backward()
            change(step, model)
            norms.append(np.sqrt(sum(one.square().sum().item() for one in model.parameters())))
            optimizer.step()
    series = session.evidence()["weight_norm"]
    return series.values, np.array(norms)[series.steps]


def _freeze(step, model):
    if step >= 10:
        model[1].requires_grad_(False).weight.grad = None


def _alternate(step, model):
    for one in model[step % 2].parameters():
        one.grad = None


def test_a_norm_loses_nothing_of_weights_that_are_frozen_midway():
    recorded, norms = _partly_frozen(_freeze)
    np.testing.assert_allclose(recorded, norms, rtol=6e-3)


def test_a_norm_keeps_weights_that_have_a_gradient_at_every_other_step():
    recorded, norms = _partly_frozen(_alternate)  # the second layer has none at step 0
    np.testing.assert_allclose(recorded[1:10], norms[1:10], rtol=1e-6)
    np.testing.assert_allclose(recorded[10:], norms[10:], rtol=0.03)  # steps between were not sampled
    assert recorded[0] < 0.9 * norms[0]


def test_weights_that_never_have_a_gradient_count_for_nothing():
    recorded, norms = _partly_frozen(lambda step, model: setattr(model[1].weight, "grad", None))
    assert (recorded < 0.9 * norms).all()
