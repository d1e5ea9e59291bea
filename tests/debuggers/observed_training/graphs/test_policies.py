"""The gains that a policy's gradient multiplies log-probabilities with, and the sign that it does so with."""

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

ROWS, CLASSES = 6, 3
CLASS = torch.tensor([0, 2, 1, 1, 0, 2])
PAID = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def viewed(loss_of):
    torch.manual_seed(0)
    outputs = nn.Linear(4, CLASSES)(torch.ones(ROWS, 4))
    return loss_view(loss_of(outputs), output_nodes([outputs]))


def drawn(outputs):
    return Categorical(logits=outputs).log_prob(CLASS)


@pytest.mark.parametrize(("loss_of", "lowers"), [
    (lambda o: (drawn(o) * (PAID - 0.1)).mean(), True),
    (lambda o: -(drawn(o) * (PAID - 0.1)).mean(), False),
    (lambda o: (-drawn(o) * (PAID - 0.1)).sum(), False),
    (lambda o: (PAID * o.log_softmax(1).gather(1, CLASS[:, None])[:, 0]).sum() / ROWS, True),
    (lambda o: (drawn(o) * PAID).mean() - Categorical(logits=o).entropy().mean(), True),
    (lambda o: -(drawn(o) * PAID).mean() + 0.5 * (o[:, 0] - PAID).square().mean(), False),
    (lambda o: (drawn(o) * PAID).mean() + 0.5 * (o[:, 0] - PAID).square().mean(), True),
    (lambda o: functional.cross_entropy(o, CLASS), None),
    (lambda o: (drawn(o) - 1).exp().mul(PAID).mean(), None),
])  # fmt: skip
def test_a_policys_gradient_tells_its_sign_and_how_rare_its_high_gains_are(loss_of, lowers):
    view = viewed(loss_of)

    assert view.facts.lowers_drawn is bool(lowers)
    assert (view.gains is None) is (lowers is None)
    if view.gains is not None:
        assert (float(view.gains.of_two_values), float(view.gains.high)) == (1, pytest.approx(1 / ROWS))


@pytest.mark.parametrize(("gains", "of_two_values", "high"), [
    (torch.tensor([-1.0, 0.0, 0.1, 0.2, 0.3, 1.0]), 1 / 3, 4 / 6), (-PAID, 1.0, 5 / 6),
])  # fmt: skip
def test_gains_of_many_values_and_those_with_a_minus_are_told_apart(gains, of_two_values, high):
    view = viewed(lambda o: (drawn(o) * gains).mean())
    assert float(view.gains.of_two_values) == pytest.approx(of_two_values)
    assert float(view.gains.high) == pytest.approx(high)


def test_equal_gains_have_no_high_ones():
    assert viewed(lambda o: (drawn(o) * torch.ones(ROWS)).mean()).gains.high.isnan()


def test_a_loss_times_numbers_of_both_signs_has_no_sign_of_its_own():
    """``Bernoulli.log_prob`` is minus a binary cross entropy, so that it looks like a loss with weights."""
    for gains, negated in ((torch.tensor([1.0, -1, 1, 1, -1, 1]), False), (torch.ones(ROWS), True)):
        view = viewed(lambda o, gains=gains: (Bernoulli(logits=o[:, 0]).log_prob(PAID) * gains).mean())
        assert (view.facts.kind, view.facts.negated) == ("bce_with_logits", negated)
