"""Losses without gradients are observed while somebody observes them, and compute what torch computes."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.loss_calls import LossObservation
from debuggers.torch_internals.loss_entries import KINDS, current_loss_entry, replace_loss_entry

OUTPUTS, CLASSES = torch.tensor([[0.2, 0.7], [0.6, 0.1], [0.5, 0.4]]), torch.tensor([0, 1, 1])
GOALS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.fixture(autouse=True)
def plain():
    entries = [current_loss_entry(kind) for kind in KINDS]
    yield
    assert [current_loss_entry(kind) for kind in KINDS] == entries


@pytest.fixture
def seen():
    found = []
    observation = LossObservation(lambda kind, outputs, mean: found.append((kind, len(outputs), mean.item())))
    yield found
    observation.remove()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("kind", "loss", "goals"),
    [
        ("cross_entropy", functional.cross_entropy, CLASSES),
        ("cross_entropy", functional.cross_entropy, GOALS),
        ("nll", functional.nll_loss, CLASSES),
        ("mse", functional.mse_loss, GOALS),
        ("bce_with_logits", functional.binary_cross_entropy_with_logits, GOALS),
    ],
)
def test_the_mean_is_told_whatever_the_reduction(seen, kind, loss, goals, reduction):
    with torch.no_grad():
        expected = loss(OUTPUTS, goals)
        seen.clear()
        loss(OUTPUTS, goals, reduction=reduction)
    assert seen == [(kind, 3, pytest.approx(expected.item()))]


def test_what_needs_gradients_is_not_told(seen):
    functional.cross_entropy(OUTPUTS.clone().requires_grad_(), CLASSES)
    assert not seen
    functional.cross_entropy(OUTPUTS, CLASSES)
    with torch.inference_mode():
        functional.cross_entropy(OUTPUTS, CLASSES)
    assert len(seen) == 2


def test_an_observer_that_fails_leaves_the_loss_alone(caplog):
    expected = functional.cross_entropy(OUTPUTS, CLASSES)
    observation = LossObservation(lambda *_: 1 / 0)
    with torch.no_grad():
        assert torch.equal(functional.cross_entropy(OUTPUTS, CLASSES), expected)
    observation.remove()
    assert "could not be observed" in caplog.text


def test_what_somebody_else_puts_around_it_stays():
    calls, before = [], current_loss_entry("mse")
    observation = LossObservation(lambda *_: calls.append("ours"))
    inner = current_loss_entry("mse")
    replace_loss_entry("mse", lambda *arguments: (calls.append("theirs"), inner(*arguments))[1])
    observation.remove()
    with torch.no_grad():
        functional.mse_loss(OUTPUTS, GOALS)
    replace_loss_entry("mse", before)
    assert calls == ["theirs"]
