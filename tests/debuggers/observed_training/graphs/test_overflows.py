"""Exponentials that overflow on the way from a model's outputs to a loss that is finite all the same."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs import overflows
from debuggers.observed_training.graphs.overflows import overflowed


def softmax_by_hand(scores):
    shares = scores.exp() / scores.exp().sum(1, keepdim=True)
    return -(shares[:, 0] + 1e-9).log().mean()


@pytest.mark.parametrize(("loss_of", "size", "said"), [
    (softmax_by_hand, 100.0, "exp puts out infinity in (4, 3)"), (softmax_by_hand, 80.0, ""),
    (lambda scores: functional.cross_entropy(scores, torch.zeros(4, dtype=torch.long)), 100.0, None),
])  # fmt: skip
def test_an_exponential_that_overflows_is_told_though_the_loss_is_finite(loss_of, size, said):
    """In float32 the exponential of 89 is infinite."""
    scores = torch.nn.Parameter(torch.tensor([[0.0, 0.0, 1.0]] * 4))
    loss = loss_of(size * scores)

    assert loss.isfinite()
    assert overflowed(loss.grad_fn) == said


def test_what_is_large_or_far_away_is_not_looked_at(monkeypatch):
    scores = torch.nn.Parameter(torch.full((4, 3), 100.0))
    loss = scores.exp().reciprocal().sum()
    assert overflowed(loss.grad_fn)

    monkeypatch.setattr(overflows, "MOST_ELEMENTS", 11)
    assert overflowed(loss.grad_fn) is None
    monkeypatch.setattr(overflows, "MOST_ELEMENTS", 12)
    monkeypatch.setattr(overflows, "MOST_NODES", 2)
    assert overflowed(loss.grad_fn) is None
