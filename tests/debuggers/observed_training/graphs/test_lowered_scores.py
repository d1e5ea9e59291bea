"""Losses of margins that make the score at a label smaller than the others, and those that do not."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

LABELS = torch.tensor([0, 2, 1, 3, 0, 2])
OTHER = (LABELS + 1) % 4
OWN = functional.one_hot(LABELS, 4)


def viewed(loss_of, layer=None, classes=4):
    """The view of the loss of what a layer puts out."""
    outputs = (layer or nn.Linear(5, classes))(torch.randn(6, 5))
    return loss_view(loss_of(outputs), output_nodes([outputs]))


def at(scores, labels=LABELS):
    return scores.gather(1, labels[:, None])


def largest_of_others(scores):
    return scores.masked_fill(OWN.bool(), -1e9).max(1)[0]


LOWERED = {
    "each": ("each", lambda z: (functional.relu(at(z) - z + 1) * (1 - OWN)).sum(1).mean()),
    "each, own too": ("each", lambda z: functional.relu(at(z) - z + 1).mean()),
    "each, by index": ("each", lambda z: ((1 - z + z[range(6), LABELS][:, None]).clamp(min=0) * (1 - OWN)).mean()),
    "soft": ("each", lambda z: functional.softplus(at(z) - z).masked_fill(OWN.bool(), 0).sum(1).mean()),
    "largest": ("largest", lambda z: functional.relu(1 + at(z)[:, 0] - largest_of_others(z)).mean()),
    "scattered": (
        "largest",
        lambda z: functional.relu(1 + at(z)[:, 0] - z.scatter(1, LABELS[:, None], -1e9).amax(1)).mean(),
    ),
    "where": (
        "largest",
        lambda z: functional.relu(1 + at(z)[:, 0] - torch.where(OWN.bool(), torch.tensor(-1e9), z).amax(1)).mean(),
    ),
}


@pytest.mark.parametrize("name", LOWERED)
def test_a_picked_score_that_is_made_smaller_than_the_others_of_its_row_is_lowered(name):
    below, loss_of = LOWERED[name]
    view = viewed(loss_of)
    assert view.facts.lowers == below
    assert view.meet_all == 1


@pytest.mark.parametrize(
    "loss_of",
    [
        pytest.param(lambda z: (functional.relu(at(z, OTHER) - z + 1) * OWN).sum(1).mean(), id="each"),
        pytest.param(
            lambda z: functional.relu(1 + at(z, OTHER)[:, 0] - z.masked_fill(OWN == 0, -1e9).max(1)[0]).mean(),
            id="largest",
        ),
    ],
)
def test_a_negative_is_compared_with_its_positives_alone(loss_of):
    view = viewed(loss_of)
    assert view.facts.lowers
    assert view.meet_all == 0


class Prototypes(nn.Module):
    """Distances to trained points."""

    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(torch.randn(4, 5))

    def forward(self, inputs):
        return torch.cdist(inputs, self.points)


@pytest.mark.parametrize(
    ("loss_of", "given"),
    [
        pytest.param(lambda z: (functional.relu(z - at(z) + 1) * (1 - OWN)).sum(1).mean(), {}, id="raised"),
        pytest.param(lambda z: functional.relu(1 - at(z)[:, 0] + largest_of_others(z)).mean(), {}, id="raised above"),
        pytest.param(lambda z: functional.relu(1 + at(z) - at(z, OTHER)).mean(), {}, id="two that are picked"),
        pytest.param(lambda z: functional.relu(1 + at(z) - z[:, :1]).mean(), {}, id="below the first"),
        pytest.param(lambda z: functional.relu(at(z) - z + 1).mean(), {"layer": Prototypes()}, id="distances"),
        pytest.param(
            lambda z: functional.relu(z.gather(1, LABELS[:, None] % 2) - z + 1).mean(), {"classes": 2}, id="of two"
        ),
    ],
)
def test_other_scores_are_not_lowered(loss_of, given):
    view = viewed(loss_of, **given)
    assert view.facts.lowers == ""
    assert view.meet_all is None
