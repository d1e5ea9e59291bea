"""The dimension in which a loss takes its classes: what a softmax goes over, and what a reshape has made of it."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view

PLACES, CLASSES = 5, 4
LABELS = torch.arange(3 * PLACES).view(3, PLACES) % CLASSES
LOSSES = {
    "flattened": lambda x, over: functional.nll_loss(x.log_softmax(over).flatten(0, 1), LABELS.flatten()),
    "turned": lambda x, over: functional.nll_loss(x.log_softmax(over).transpose(1, 2), LABELS),
    "permuted": lambda x, over: functional.nll_loss(x.log_softmax(over).permute(0, 2, 1), LABELS),
    "turned and flattened": lambda x, over: functional.nll_loss(
        x.log_softmax(over).transpose(0, 1).reshape(-1, CLASSES), LABELS.T.flatten()
    ),
    "gathered": lambda x, over: -x.log_softmax(over).gather(2, LABELS[..., None]).mean(),
    "a logarithm": lambda x, over: functional.nll_loss(x.softmax(over).log().flatten(0, 1), LABELS.flatten()),
}


def softmax_dim(loss_of, over, *, places=PLACES, rows=3):
    scores = torch.ones(rows, places, CLASSES, requires_grad=True) * 1
    return loss_view(loss_of(scores, over)).facts.softmax_dim


@pytest.mark.parametrize("over", [1, -2])
@pytest.mark.parametrize("name", LOSSES)
def test_a_softmax_over_the_places_is_told(name, over):
    assert softmax_dim(LOSSES[name], over) == 1


@pytest.mark.parametrize("over", [2, -1])
@pytest.mark.parametrize("name", LOSSES)
def test_a_softmax_over_the_classes_is_none_of_another_dimension(name, over):
    assert softmax_dim(LOSSES[name], over) is None


@pytest.mark.parametrize("name", LOSSES)
def test_classes_stand_in_the_second_dimension(name):
    scores = torch.ones(3, PLACES, CLASSES, requires_grad=True) * 1
    assert loss_view(LOSSES[name](scores, -1)).facts.outputs_shape[1] == CLASSES


@pytest.mark.parametrize("shape", [(3, 4, 6), (3, 4, 2, 2), (3, 4)])
def test_torchs_cross_entropy_takes_its_own_classes(shape):
    scores = torch.ones(shape, requires_grad=True) * 1
    labels = torch.zeros(shape[0], *shape[2:], dtype=torch.long)

    assert loss_view(functional.cross_entropy(scores, labels)).facts.softmax_dim is None


def test_the_diagonal_of_a_square_belongs_to_its_columns_too():
    scores = torch.ones(4, 4, 4, requires_grad=True) * 1
    loss = functional.nll_loss(scores.log_softmax(2), torch.arange(4).expand(4, 4))

    assert loss_view(loss).facts.softmax_dim is None


def test_which_head_a_label_chooses_is_not_what_its_softmax_goes_over():
    """Each class has a distribution over the places; the row's class says which of them counts."""
    scores = torch.ones(3, PLACES, CLASSES, requires_grad=True) * 1
    heads = scores.log_softmax(1).gather(2, LABELS[:, :1, None].expand(3, PLACES, 1)).squeeze(2)

    assert loss_view(functional.nll_loss(heads, LABELS[:, 0])).facts.softmax_dim is None
    weights = torch.linspace(0.1, 0.5, PLACES)
    assert loss_view(-(heads * weights).sum(1).mean()).facts.softmax_dim is None


def scattered(made, *shape, places=(PLACES,)):
    scores = torch.ones(3, *shape, requires_grad=True) * 1
    found = made(scores)
    labels = torch.zeros(3, *places, dtype=torch.long)
    loss = functional.cross_entropy(found, labels.flatten() if found.ndim == 2 else labels)
    return loss_view(loss).facts.scattered


@pytest.mark.parametrize(
    ("made", "before"),
    [
        (lambda x: x.view(3, CLASSES, PLACES), (PLACES, CLASSES)),
        (lambda x: x.reshape(-1, CLASSES), (CLASSES, PLACES)),
        (lambda x: x.log_softmax(2).view(3, CLASSES, PLACES), (PLACES, CLASSES)),
    ],
)
def test_a_reshape_in_the_place_of_a_permutation_is_told(made, before):
    assert scattered(made, *before) == (3, *before)


def test_of_pictures_it_is_told_too():
    made = scattered(lambda x: x.view(3, CLASSES, 2, PLACES), 2, PLACES, CLASSES, places=(2, PLACES))
    assert made == (3, 2, PLACES, CLASSES)


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (lambda x: x, (CLASSES, PLACES)),
        (lambda x: x.permute(0, 2, 1), (PLACES, CLASSES)),
        (lambda x: x.reshape(-1, CLASSES), (PLACES, CLASSES)),
        (lambda x: x.transpose(1, 2).reshape(-1, CLASSES), (CLASSES, PLACES)),
        (lambda x: x.view(3, CLASSES, PLACES), (CLASSES * PLACES,)),
        (lambda x: x.flatten(2).unsqueeze(1).squeeze(1), (CLASSES, PLACES)),
    ],
)
def test_what_keeps_the_scores_of_a_place_together_is_not(made, shape):
    assert scattered(made, *shape) == ()


@pytest.mark.parametrize("places", [8, 6, 2])
def test_so_it_is_however_many_places_there_are(places):
    assert scattered(lambda x: x.view(3, CLASSES, places), places, CLASSES, places=(places,)) == (3, places, CLASSES)


def test_classes_of_several_anchors_are_split_off_even_if_a_grid_is_as_wide():
    """(N, anchors x classes, 4, 4) becomes (N, anchors, classes, 4, 4), and (N, 4, heads x classes) rows of classes."""
    anchors = scattered(lambda x: x.view(3, 2, CLASSES, 4, 4).transpose(1, 2), 2 * CLASSES, 4, 4, places=(2, 4, 4))
    heads = scattered(lambda x: x.view(-1, CLASSES), CLASSES, 2 * CLASSES, places=(2 * CLASSES,))
    assert anchors == heads == ()


def test_as_many_classes_as_places_are_as_they_were():
    assert scattered(lambda x: x.view(3, CLASSES, CLASSES), CLASSES, CLASSES, places=(CLASSES,)) == ()
