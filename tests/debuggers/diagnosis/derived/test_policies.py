"""Which way a policy's gradient pushes what is rare at first."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence, of_loss
from sklearn.datasets import load_digits
from torch.distributions import Categorical

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("lowers", "two", "first", "last", "is_one"), [
    (True, 1.0, 0.1, 0.0, True), (False, 1.0, 0.1, 0.0, False), (True, 0.9, 0.1, 0.0, False),
    (True, 1.0, 0.45, 0.0, False), (True, 1.0, 0.9, 0.0, False), (True, 1.0, 0.1, 0.3, False),
])  # fmt: skip
def test_the_rare_high_gain_is_what_succeeds_at_first(lowers, two, first, last, is_one):
    """Not one of many values, nor the usual one of two, nor one that becomes more frequent."""
    found = evidence(
        facts=of_loss(kind="", lowers_drawn=lowers, weighted=True), loss=np.zeros(STEPS),
        **{"gains/of_two_values": np.full(STEPS, two), "gains/high": np.linspace(first, last, STEPS)},
    )  # fmt: skip
    causes = diagnose(found)
    assert [cause.code for cause in causes] == ["flipped_loss_sign"] * is_one
    assert not causes or "-(gain * log_prob)" in causes[0].advice


@pytest.mark.parametrize(("loss_of", "is_one"), [
    (lambda paid, chosen: ((paid - paid.mean()) * chosen).mean(), True),
    (lambda paid, chosen: -((paid - paid.mean()) * chosen).mean(), False),
    (lambda paid, chosen: (-(paid - paid.mean()) * chosen).mean(), False),
    (lambda paid, chosen: ((1 - paid) * chosen).mean(), False),  # a cost for each wrong answer
])  # fmt: skip
def test_a_policy_that_is_paid_for_the_right_digit_wants_a_minus(loss_of, is_one):
    torch.manual_seed(0)
    inputs, labels = (torch.tensor(values) for values in load_digits(return_X_y=True))
    inputs = inputs.float() / 16
    policy = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    with stepscope.watch(policy, optimizer) as session:
        for _ in range(60):
            rows = torch.randint(len(inputs), (64,))
            choice = Categorical(logits=policy(inputs[rows]))
            actions = choice.sample()
            optimizer.zero_grad()
            loss_of((actions == labels[rows]).float(), choice.log_prob(actions)).backward()
            optimizer.step()
        codes = [cause.code for cause in session.report().causes]
    assert ("flipped_loss_sign" in codes) is is_one
