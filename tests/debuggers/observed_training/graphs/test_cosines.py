"""Logits that are cosines, however they are written, and those that only look as if they were."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.cosines import bound_of_cosines

LEFT, RIGHT = nn.Linear(8, 4), nn.Linear(8, 4)
INPUTS = torch.randn(6, 8)


def unit(values, dim=-1):
    return functional.normalize(values, dim=dim)


def divided(values):
    return values / values.norm(dim=-1, keepdim=True)


BOUNDED = {
    "plain": (lambda a, b: unit(a) @ unit(b).T, 1.0),
    "by hand": (lambda a, b: divided(a) @ divided(b).t(), 1.0),
    "columns of a weight": (lambda a, b: unit(a) @ unit(RIGHT.weight, 0), 1.0),
    "batches": (lambda a, b: torch.bmm(unit(a).view(2, 3, 4), unit(b).view(2, 3, 4).transpose(1, 2)), 1.0),
    "multiplied": (lambda a, b: unit(a) @ unit(b).mT * 0.07, 0.07),
    "divided": (lambda a, b: unit(a) @ unit(b).T / torch.tensor(0.5), 2.0),
    "both": (lambda a, b: 3 * (unit(a) @ unit(b).T) / 2, 1.5),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_cosines_are_bounded_by_their_scale(name):
    made, bound = BOUNDED[name]
    logits = made(LEFT(INPUTS), RIGHT(INPUTS))

    assert bound_of_cosines(logits.grad_fn) == pytest.approx(bound)
    assert float(logits.detach().abs().max()) <= bound + 1e-6


SCALE = nn.Parameter(torch.ones(()))
UNBOUNDED = {
    "no lengths": lambda a, b: a @ b.T,
    "one side": lambda a, b: unit(a) @ b.T,
    "another dimension": lambda a, b: unit(a, 0) @ unit(b).T,
    "another dimension of the other side": lambda a, b: unit(a) @ unit(b, 0).T,
    "another norm": lambda a, b: functional.normalize(a, p=1) @ unit(b).T,
    "a trained scale": lambda a, b: unit(a) @ unit(b).T * SCALE,
    "a bias": lambda a, b: torch.addmm(LEFT.bias.sum(), unit(a), unit(b).T),
    "exponentials": lambda a, b: (unit(a) @ unit(b).T).exp(),
    "a leaf": lambda a, b: SCALE * 2,
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_of_others_no_bound_is_known(name):
    assert bound_of_cosines(UNBOUNDED[name](LEFT(INPUTS), RIGHT(INPUTS)).grad_fn) == 0.0
