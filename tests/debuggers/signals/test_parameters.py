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
