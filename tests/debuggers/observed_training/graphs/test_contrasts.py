"""Losses that draw some pairs together and others apart: how often these are in that order, and which are left out."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

SAME = torch.tensor([1.0, 1.0, 0.0, 0.0])
FIRST = torch.zeros(4, 2)
SECOND = torch.tensor([[1.0, 0], [3, 0], [0, 2], [0, 4]])
"""Distances of 1 and 3 for those that belong together, of 2 and 4 for others: three of four are in order."""


def viewed(loss_of, first=FIRST, second=SECOND):
    outputs = [tensor.clone().requires_grad_() * 1 for tensor in (first, second)]
    return loss_view(loss_of(*outputs), output_nodes(outputs))


def contrastive(a, b, same=SAME):
    distances = functional.pairwise_distance(a, b)
    return (same * distances.pow(2) + (1 - same) * functional.relu(5 - distances).pow(2)).mean()


def chosen(a, b):
    distances = (a - b).norm(dim=1)
    return torch.where(SAME > 0, distances**2, (5 - distances).clamp(min=0)).mean()


@pytest.mark.parametrize(
    ("loss_of", "order"),
    [
        pytest.param(contrastive, 0.75, id="masks"),
        pytest.param(chosen, 0.75, id="where"),
        pytest.param(lambda a, b: contrastive(a, b, 1 - SAME), 0.25, id="exchanged"),
        pytest.param(
            lambda a, b: functional.hinge_embedding_loss((a - b).norm(dim=1), 2 * SAME - 1, margin=5.0), 0.75,
            id="hinge embedding",
        ),
    ],
)  # fmt: skip
def test_pairs_that_belong_together_are_compared_with_the_others(loss_of, order):
    view = viewed(loss_of)
    assert view.facts.kind == "contrast"
    assert view.order.item() == order


def test_similarities_are_in_order_if_those_that_belong_together_are_larger():
    first = torch.tensor([[1.0, 0]] * 4)
    second = torch.tensor([[1.0, 0.1], [1, 0.5], [1, 0.3], [0, 1]])
    view = viewed(lambda a, b: functional.cosine_embedding_loss(a, b, 2 * SAME - 1), first, second)
    assert view.order.item() == 0.75


def test_pairs_of_one_kind_have_no_order():
    view = viewed(lambda a, b: functional.cosine_embedding_loss(a, b, torch.ones(4)))
    assert view.facts.kind == "contrast"
    assert view.order.isnan()


@pytest.mark.parametrize(("targets", "share"), [(SAME, 0.5), (2 * SAME - 1, 0.0)])
def test_targets_of_0_leave_pairs_out(targets, share):
    view = viewed(lambda a, b: functional.cosine_embedding_loss(a, b, targets))
    assert view.left_out.item() == share


@pytest.mark.parametrize(
    "loss_of",
    [
        pytest.param(lambda a, b: (SAME * (a - b).norm(dim=1) + (1 - SAME) * a.norm(dim=1)).mean(), id="two numbers"),
        pytest.param(lambda a, b: ((a - b).norm(dim=1) + 2 * (a - b).norm(dim=1)).mean(), id="no masks"),
    ],
)
def test_other_sums_are_of_no_pairs(loss_of):
    view = viewed(loss_of)
    assert view.facts.kind == ""
    assert view.order is None
