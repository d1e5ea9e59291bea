"""Distances that a cross entropy takes for scores, and outputs of which a dropout has zeroed some."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

ROWS, CLASSES, WIDTH = 64, 6, 4
CLASS = torch.arange(ROWS) % CLASSES


def facts_of(end, loss=lambda outputs: functional.cross_entropy(outputs, CLASS)):
    """What is seen of a linear layer that ends in a function of its outputs and of trained centres."""
    torch.manual_seed(0)
    layer, centres = nn.Linear(3, WIDTH), nn.Parameter(torch.randn(CLASSES, WIDTH))
    outputs = end(layer(torch.randn(ROWS, 3)), centres)
    return loss_view(loss(outputs), output_nodes([outputs])).facts


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(torch.cdist, True, id="cdist"),
        pytest.param(lambda z, c: torch.cdist(z, c) ** 2 / 0.5, True, id="squared, over a temperature"),
        pytest.param(lambda z, c: ((z[:, None] - c) ** 2).sum(-1), True, id="sum of squares"),
        pytest.param(lambda z, c: (z[:, None] - c).norm(dim=-1), True, id="norm"),
        pytest.param(lambda z, c: -torch.cdist(z, c), False, id="minus"),
        pytest.param(lambda z, c: torch.cdist(z, c) * -2.0, False, id="negative scale"),
        pytest.param(lambda z, c: torch.cdist(z, c) ** -1, False, id="inverse distances"),
        pytest.param(lambda z, c: -(z[:, None] - c).square().sum(-1), False, id="minus a sum of squares"),
        pytest.param(lambda z, c: (z[:, None] * c).norm(dim=-1), False, id="lengths, as of capsules"),
        pytest.param(lambda z, c: z @ c.T, False, id="products"),
    ],
)
def test_distances_that_are_taken_for_scores(end, expected):
    assert facts_of(end).distances is expected


def test_distances_that_a_regression_puts_out_are_no_scores():
    facts = facts_of(torch.cdist, lambda outputs: functional.mse_loss(outputs, torch.ones(ROWS, CLASSES)))
    assert (facts.kind, facts.distances) == ("mse", False)


@pytest.mark.parametrize(
    ("end", "low", "high"),
    [
        pytest.param(lambda z, c: functional.dropout(z @ c.T, 0.5), 0.4, 0.6, id="dropout"),
        pytest.param(lambda z, c: functional.dropout(z @ c.T, 0.1).view(ROWS, CLASSES), 0.05, 0.2, id="in a view"),
        pytest.param(lambda z, c: functional.dropout(z, 0.5) @ c.T, 0.0, 0.0, id="before the last layer"),
        pytest.param(lambda z, c: functional.dropout(z @ c.T, 0.5, training=False), 0.0, 0.0, id="at rest"),
        pytest.param(lambda z, c: (z @ c.T) * (torch.rand(ROWS, CLASSES) < 0.5), 0.0, 0.0, id="a mask of 0 and 1"),
        pytest.param(lambda z, c: (z @ c.T) * (2 * torch.rand(ROWS, CLASSES)), 0.0, 0.0, id="weights"),
    ],
)
def test_outputs_that_a_dropout_has_zeroed(end, low, high):
    of_values = facts_of(end, lambda outputs: functional.mse_loss(outputs, torch.ones(ROWS, CLASSES)))
    for facts in (facts_of(end), of_values):
        assert low <= facts.dropped <= high


class Scores(nn.Module):
    """Compares two rows by the scores of one layer."""

    def __init__(self, end):
        super().__init__()
        self.score, self.end = nn.Linear(3, 1), end

    def forward(self, one, other):
        return self.end(self.score(one), self.score(other))


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(lambda a, b: a - b, True, id="difference"),
        pytest.param(lambda a, b: (a - b)[:, 0] / 2, True, id="a column of one"),
        pytest.param(lambda a, b: torch.sigmoid(a - b), True, id="its sigmoid"),
        pytest.param(lambda a, b: a + b, False, id="sum"),
        pytest.param(lambda a, b: a - 0.5, False, id="less a constant"),
        pytest.param(lambda a, b: a, False, id="one side"),
    ],
)
def test_differences_of_two_sides(end, expected):
    torch.manual_seed(0)
    outputs = Scores(end)(torch.randn(ROWS, 3), torch.randn(ROWS, 3))
    are_shares = bool(((outputs >= 0) & (outputs <= 1)).all())
    loss = functional.binary_cross_entropy if are_shares else functional.binary_cross_entropy_with_logits
    facts = loss_view(loss(outputs, torch.ones_like(outputs)), output_nodes([outputs])).facts
    assert (facts.kind, facts.differences) == ("bce" if are_shares else "bce_with_logits", expected)
