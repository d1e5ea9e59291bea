"""Which losses are overlaps, with which sign, and of which outputs and targets."""

import pytest
import torch
from torch import nn

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes


def _dice(likely, targets):
    return 2 * (likely * targets).sum() / (likely.sum() + targets.sum() + 1)


def _dice_of_each_row(likely, targets):
    both, ours = (targets * likely).flatten(1).sum(1), likely.flatten(1)
    return ((2.0 * both + 1) / (ours.pow(2).sum(1) + targets.flatten(1).pow(2).sum(1) + 1)).mean()


def _jaccard(likely, targets):
    return (likely * targets).sum() / (likely + targets - likely * targets).sum()


def _tversky(likely, targets):
    hits = (likely * targets).sum()
    return hits / (hits + 0.3 * ((1 - targets) * likely).sum() + 0.7 * (targets * (1 - likely)).sum())


OVERLAPS = [_dice, _dice_of_each_row, _jaccard, _tversky]


def _seen(loss_function, activation=torch.sigmoid, channels=1):
    torch.manual_seed(0)
    model = nn.Conv2d(2, channels, 3, padding=1)
    targets = (torch.rand(4, channels, 5, 5) > 0.5).float()
    outputs = model(torch.randn(4, 2, 5, 5))
    return loss_view(loss_function(activation(outputs), targets), output_nodes([outputs])), targets


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_overlap_is_negated_where_it_is_minimised_itself(overlap, sign):
    view, targets = _seen(lambda likely, targets: (0.0 if sign > 0 else 1.0) + sign * overlap(likely, targets))
    assert (view.facts.kind, view.facts.negated) == ("overlap", sign > 0)
    assert view.facts.before == "sigmoid"
    assert view.targets is not None and torch.equal(view.targets, targets)


def test_of_classes_that_a_softmax_chooses_from_the_targets_are_no_values_of_outputs():
    view, _ = _seen(lambda likely, targets: 1 - _dice_of_each_row(likely, targets), lambda one: one.softmax(1), 3)
    assert (view.facts.kind, view.facts.negated, view.targets) == ("overlap", False, None)


def _mean_of_costs(likely, targets):
    return (likely * targets).sum() / likely.sum()


def _of_another_sum(likely, targets):
    return (likely * targets).sum() / ((1 - likely).exp().log() + 1).sum().detach()


def _shares(likely, targets):
    return ((likely * targets) / (likely.sum() + 1)).square().sum()


@pytest.mark.parametrize("loss_function", [_mean_of_costs, _of_another_sum, _shares])
def test_other_quotients_are_no_overlaps(loss_function):
    """What is expected of costs is divided by the weights alone."""
    assert _seen(loss_function)[0].facts.kind != "overlap"


def test_an_overlap_beside_a_cross_entropy_is_one_of_its_parts():
    def both(likely, targets):
        return nn.functional.binary_cross_entropy(likely, targets) + _dice(likely, targets)

    parts = {part.kind: part.negated for part in _seen(both)[0].facts.parts}
    assert parts == {"bce": False, "overlap": True}
