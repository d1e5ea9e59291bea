"""Losses of pairs, ranks and margins: what they ask for, how often it is so, and what they are for equal outputs."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes
from debuggers.torch_internals.autograd import node_number

TARGETS = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
SCORES = [torch.tensor([3.0, 3.0, 0.2, -0.2, 0.0, 1.0]), torch.tensor([1.0, 1.0, 0.1, 0.1, 0.0, 2.0])]
"""First minus second: 2, 2, 0.1, -0.3, 0, -1."""
POINTS = [torch.zeros(3, 2), torch.tensor([[1.0, 0], [0, 1], [3, 0]]), torch.tensor([[2.0, 0], [0, 3], [0, 1]])]
"""Two of three second points are nearer to the first ones than the third ones."""


def viewed(loss_of, given):
    """The view of a loss of what a model makes of several inputs: they themselves."""
    outputs = [tensor.clone().requires_grad_() * 1 for tensor in given]
    known = {node_number(one.grad_fn): one.detach() for one in outputs}
    return loss_view(loss_of(*outputs), output_nodes(outputs), known)


def squares(a, b):
    return (a - b).pow(2).sum(1)


PAIRS = {
    "triplets": (lambda a, p, n: functional.triplet_margin_loss(a, p, n, margin=0.5), POINTS, 2 / 3, 0.5),
    "module": (nn.TripletMarginLoss(margin=2.0), POINTS, 2 / 3, 2.0),
    "squared by hand": (lambda a, p, n: functional.relu(squares(a, p) - squares(a, n) + 9).mean(), POINTS, 2 / 3, 9.0),
    "exchanged": (lambda a, p, n: functional.triplet_margin_loss(a, n, p), POINTS, 1 / 3, 1.0),
    "ranks": (lambda a, b: functional.margin_ranking_loss(a, b, TARGETS, margin=0.5), SCORES, 3.5 / 6, 0.5),
    "ranks by hand": (lambda a, b: (0.5 - TARGETS * (a - b)).clamp(min=0).mean(), SCORES, 3.5 / 6, 0.5),
    "softplus": (lambda a, b: functional.softplus(b - a).mean(), SCORES, 3.5 / 6, math.log(2)),
    "log-sigmoid": (lambda a, b: -functional.logsigmoid(a - b).mean(), SCORES, 3.5 / 6, math.log(2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_counted_in_the_order_that_the_loss_asks_for(name):
    loss_of, given, order, tie = PAIRS[name]
    view = viewed(loss_of, given)
    assert view.order.item() == pytest.approx(order)
    assert view.tie.item() == pytest.approx(tie, rel=1e-4)
    assert view.targets is None
    assert not view.facts.negated


SINGLE = {
    "relu": ("hinge", lambda s, _: functional.relu(1 - TARGETS * s).mean()),
    "clamp": ("hinge", lambda s, _: (1 - s * TARGETS).clamp(min=0).mean()),
    "by its negative": ("hinge", lambda s, _: functional.relu(1 + -TARGETS * s).mean()),
    "softplus": ("soft_margin", lambda s, _: functional.softplus(-TARGETS * s).mean()),
    "torch's": ("soft_margin", lambda s, _: functional.soft_margin_loss(s, TARGETS)),
}


@pytest.mark.parametrize("name", SINGLE)
def test_scores_have_the_targets_that_they_are_multiplied_with(name):
    kind, loss_of = SINGLE[name]
    view = viewed(loss_of, SCORES)
    assert view.facts.kind == kind
    assert view.order is None
    assert view.targets.tolist() == TARGETS.tolist()


@pytest.mark.parametrize(("targets", "share"), [([1, -1, 1, -1], 0.0), ([1, 0, 0, 0], 0.75)])
def test_scores_that_are_multiplied_with_0_are_left_out(targets, share):
    view = viewed(lambda scores: (1 - torch.tensor(targets) * scores).clamp(min=0).mean(), [torch.randn(4)])
    assert view.left_out == share


def test_the_hinge_of_several_classes_has_class_indices_and_each_score_may_have_a_target():
    classes, scores = torch.tensor([0, 2, 1]), [torch.randn(3, 3)]
    several = viewed(lambda s: functional.multi_margin_loss(s, classes), scores)
    each = viewed(lambda s: (1 - (2 * torch.eye(3) - 1) * s).clamp(min=0).mean(), scores)
    assert (several.facts.kind, each.facts.kind) == ("multi_margin", "hinge")
    assert several.targets.tolist() == classes.tolist()
    assert each.targets.tolist() == (2 * torch.eye(3) - 1).tolist()


@pytest.mark.parametrize(
    "loss_of",
    [
        pytest.param(lambda a, b: functional.relu(1 - a).mean(), id="of one side"),
        pytest.param(lambda a, b: functional.relu(a + b).mean(), id="of a sum"),
        pytest.param(lambda a, b: (a - b).clamp(-1, 1).mean(), id="of both signs"),
        pytest.param(lambda a, b: (a - b).clamp(min=0.5).mean(), id="from another value"),
    ],
)
def test_other_functions_are_no_margins(loss_of):
    view = viewed(loss_of, SCORES)
    assert view.facts.kind == ""
    assert view.order is None
    assert view.tie is None


def test_a_negative_hinge_is_negated_and_what_differs_from_row_to_row_is_no_margin():
    assert viewed(lambda a, b: -functional.relu(1 + a - b).mean(), SCORES).facts.negated
    margins = torch.linspace(0.1, 1, 6)
    assert math.isnan(viewed(lambda a, b: functional.relu(margins + 9 + a - b).mean(), SCORES).tie)


def test_whole_numbers_that_scores_are_multiplied_with_are_no_indices_of_classes():
    whole = viewed(lambda scores: functional.relu(1 - TARGETS.long() * scores).mean(), SCORES[:1])
    assert whole.targets.dtype == torch.float32
    assert whole.targets.tolist() == TARGETS.tolist()
