"""Losses that users write by hand: what they compare, in which shapes, and with which sign."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

ROWS, CLASSES = 6, 3
CLASS = torch.tensor([0, 2, 1, 1, 0, 2])
SHARES = functional.one_hot(CLASS, CLASSES).float()
VALUES = torch.linspace(0.1, 0.9, ROWS)[:, None]
WEIGHTS = torch.tensor([1.0, 2.0, 3.0])


def viewed(loss_of, *modules, units=CLASSES):
    """The view of the loss of a small model's outputs."""
    torch.manual_seed(0)
    outputs = nn.Sequential(nn.Linear(4, units), *modules)(torch.ones(ROWS, 4))
    return loss_view(loss_of(outputs), output_nodes([outputs]))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_pairs_of_every_output_with_every_target_are_told_in_any_formula():
    losses = (
        lambda o, t: torch.log(torch.cosh(o - t)).mean(),
        lambda o, t: torch.maximum(0.9 * (t - o), -0.1 * (t - o)).mean(),
        lambda o, t: (1 - t * o).clamp(min=0).mean(),
        lambda o, t: -(t * o.sigmoid().log() + (1 - t) * (1 - o.sigmoid()).log()).mean(),
        lambda o, t: functional.mse_loss(o, t) + 0.1 * functional.l1_loss(o, t),
    )
    for loss_of in losses:
        paired = viewed(lambda o, loss_of=loss_of: loss_of(o, VALUES[:, 0]), units=1).facts

        assert paired.broadcast
        assert (ROWS, 1) in {paired.outputs_shape, *(part.outputs_shape for part in paired.parts)}
        assert not viewed(lambda o, loss_of=loss_of: loss_of(o, VALUES), units=1).facts.broadcast


@pytest.mark.parametrize("weights", [torch.ones(ROWS, 1), torch.ones(ROWS)])
def test_the_loss_of_each_row_meets_the_weight_of_each_row(weights):
    facts = viewed(lambda o: (weights * functional.cross_entropy(o, CLASS, reduction="none")).mean()).facts

    assert (facts.kind, facts.broadcast) == ("cross_entropy", weights.ndim == 2)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda o: (o[:, None] - SHARES[None]).square().sum(2).amin(1).mean(),  # Chamfer's distance
        lambda o: torch.exp(-((o[:, :1, None] - torch.arange(4.0)) ** 2)).mean(),  # bins
        lambda o: (o - VALUES).abs().mean(),  # several heads with one target
        lambda o: (WEIGHTS * (o - SHARES) ** 2).mean(),
    ],
)
def test_broadcasting_on_purpose_is_none(loss_of):
    assert not viewed(loss_of).facts.broadcast


def test_broadcast_targets_are_those_that_the_loop_gave():
    with pytest.warns(UserWarning, match="target size"):
        targets = viewed(lambda o: functional.huber_loss(o, VALUES[:, 0]), units=1).targets

    assert torch.equal(targets, VALUES[:, 0])


COSINES = {
    "functional": lambda o: functional.cosine_similarity(o, SHARES).mean(),
    "unit vectors": lambda o: (functional.normalize(o, dim=1) * functional.normalize(SHARES, dim=1)).sum(1).mean(),
    "divided by norms": lambda o: (o * SHARES).sum() / (o.norm() * SHARES.norm() + 1e-8),
}


@pytest.mark.parametrize("name", COSINES)
def test_a_cosine_is_told_with_its_sign(name):
    assert (viewed(lambda o: 1 - COSINES[name](o)).facts.kind, viewed(COSINES[name]).facts.kind) == ("cosine",) * 2
    assert viewed(COSINES[name]).facts.negated
    assert not viewed(lambda o: 1 - COSINES[name](o)).facts.negated


def test_a_repulsion_beside_an_attraction_is_no_negated_loss():
    near, far = SHARES, SHARES.flip(1)
    facts = viewed(lambda o: functional.cosine_similarity(o, far).mean() - functional.cosine_similarity(o, near).mean())

    assert (facts.facts.kind, facts.facts.negated) == ("", False)


@pytest.mark.parametrize(("loss_of", "negated"), [
    (lambda o: (o[range(ROWS), CLASS] - o.logsumexp(1)).mean(), True),
    (lambda o: -(o[range(ROWS), CLASS] - o.logsumexp(1)).mean(), False),
    (lambda o: (o.logsumexp(1, keepdim=True) - o.gather(1, CLASS[:, None])).mean(), False),
    (lambda o: (o.logsumexp(1) - o[range(ROWS), CLASS]).mean().neg(), True),
])  # fmt: skip
def test_what_is_picked_beside_the_logarithm_of_all_is_a_cross_entropy_of_either_sign(loss_of, negated):
    view = viewed(loss_of)

    assert (view.facts.kind, view.facts.negated, view.facts.reduction) == ("cross_entropy", negated, "mean")
    assert torch.equal(view.targets.reshape(-1), CLASS)


def test_a_logarithm_of_others_is_none_beside_what_is_picked():
    """As of the rest of a batch: with which it is no distribution."""
    assert not viewed(lambda o: (o[range(ROWS), CLASS] - (2 * o).logsumexp(1)).mean()).facts.kind


def test_a_log_sigmoid_is_a_likelihood_of_two_classes():
    assert viewed(lambda o: functional.logsigmoid(o).mean(), units=1).facts.negated
    by_hand = viewed(lambda o: -(VALUES * functional.logsigmoid(o)).mean(), units=1)
    assert (by_hand.facts.kind, by_hand.facts.negated) == ("bce_with_logits", False)
    assert torch.equal(by_hand.targets, VALUES)


def test_several_kinds_are_told_apart_in_parts():
    facts = viewed(lambda o: functional.cross_entropy(o, CLASS) + functional.mse_loss(o, SHARES), nn.Softmax(1)).facts

    assert (facts.kind, facts.negated) == ("", False)
    assert {(part.kind, part.before) for part in facts.parts} == {("cross_entropy", "softmax"), ("mse", "softmax")}


def test_a_loss_reaches_outputs_but_not_through_another_model():
    critic = nn.Linear(CLASSES, 1)

    def of_overlap(o):
        return 1 - (2 * (o * SHARES).sum() / (o.sum() + SHARES.sum()))

    assert viewed(of_overlap).reaches_outputs
    assert viewed(lambda o: functional.mse_loss(o, SHARES) + functional.l1_loss(o, SHARES)).reaches_outputs
    assert not viewed(lambda o: critic(o).mean()).reaches_outputs


def _focal(outputs, labels):
    chance = outputs.sigmoid()
    positive = labels * (1 - chance) ** 2 * functional.logsigmoid(outputs)
    return -(positive + (1 - labels) * chance**2 * functional.logsigmoid(-outputs)).mean()


@pytest.mark.parametrize("column", [True, False])
def test_a_formula_of_ones_own_that_compares_each_with_all_is_told(column):
    labels = (VALUES > 0.5).float()
    facts = viewed(lambda o: _focal(o, labels if column else labels[:, 0]), units=1).facts
    assert facts.broadcast == (not column)


def test_pairs_that_a_constant_has_itself_are_meant_so():
    """Cox's partial likelihood: the hazards of those who are at risk with each."""
    at_risk = (VALUES[:, 0] >= VALUES).float()
    facts = viewed(lambda o: -(o[:, 0] - (at_risk * o[:, 0].exp()).sum(1).log()).mean(), units=1).facts
    assert not facts.broadcast


@pytest.mark.parametrize(("weights", "ratio", "sign"), [
    (None, 1.0, 0), ([1.0, 1.0, 4.0], 4.0, 1), ([4.0, 4.0, 1.0], 4.0, -1), ([0.0, 2.0, 2.0], 1.0, 0),
    ([0.0, 0.0, 2.0], 1.0, 0),
])  # fmt: skip
def test_weights_of_classes_are_known_beside_how_often_these_come(weights, ratio, sign):
    """Of six targets, three are of the last class; one left out counts for nothing."""
    targets = torch.tensor([0, 1, 2, 2, 2, -100])
    given = None if weights is None else torch.tensor(weights)
    facts = viewed(lambda o: functional.cross_entropy(o, targets, weight=given)).facts

    assert facts.class_weight_ratio == pytest.approx(ratio)
    assert facts.class_weights_follow == sign


LEVELS = torch.tensor([0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("loss_of", "levels", "negated"),
    [
        (lambda o: torch.maximum(LEVELS * (VALUES - o), (LEVELS - 1) * (VALUES - o)).mean(), (0.1, 0.5, 0.9), False),
        (lambda o: torch.max((0.3 - 1) * (VALUES - o), 0.3 * (VALUES - o)).sum(1).mean(), (0.3,), False),
        (lambda o: torch.maximum(0.7 * (o - VALUES), -0.3 * (o - VALUES)).mean(), (0.7,), False),
        (lambda o: -torch.maximum(0.7 * (VALUES - o), -0.3 * (VALUES - o)).mean(), (0.7,), True),
    ],
)
def test_the_larger_of_an_error_times_two_factors_is_the_loss_of_a_quantile(loss_of, levels, negated):
    """The errors of (N, 1) and (N, 3) are those of three quantiles of one target."""
    torch.manual_seed(0)
    outputs = nn.Linear(4, CLASSES)(torch.ones(ROWS, 4))
    view = viewed(loss_of)

    assert (view.facts.kind, view.facts.broadcast, view.facts.negated) == ("quantile", False, negated)
    assert view.facts.levels == pytest.approx(levels)
    assert torch.allclose(view.difference_sign * view.difference, outputs.detach() - VALUES, atol=1e-6)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda o: torch.maximum(0.9 * (VALUES - o), 0.1 * (VALUES - o)).mean(),  # no two factors of a quantile
        lambda o: torch.maximum(0.9 * (VALUES - o), -0.1 * (o - VALUES)).mean(),  # an error and its opposite
        lambda o: torch.maximum(VALUES - o, 0.1 - o).mean(),
    ],
)
def test_the_larger_of_two_others_is_no_loss_of_a_quantile(loss_of):
    assert viewed(loss_of).facts.kind != "quantile"


@pytest.mark.parametrize("loss_of", [functional.huber_loss, functional.smooth_l1_loss, functional.mse_loss])
@pytest.mark.parametrize("zeros", [torch.zeros_like, lambda error: error * 0])
def test_an_error_that_is_compared_with_zeros_is_a_difference_to_the_targets(loss_of, zeros):
    def of_error(outputs):
        error = VALUES - outputs
        return loss_of(error, zeros(error))

    view = viewed(of_error, units=1)
    assert view.facts.kind == viewed(lambda o: loss_of(o, VALUES), units=1).facts.kind
    assert view.targets is None
    assert view.difference_sign == -1
    assert view.difference.shape == (ROWS, 1)


@pytest.mark.parametrize("zeros", [lambda norm: norm * 0, lambda norm: norm.detach() * 0 + 1])
def test_zeros_that_outputs_made_are_no_targets_and_ones_are(zeros):
    def of_norm(outputs):
        norm = outputs.exp()
        return functional.mse_loss(norm, zeros(norm))

    view = viewed(of_norm)
    assert view.facts.kind == "mse"
    assert (view.targets is None) == (zeros(torch.ones(1)) == 0)


@pytest.mark.parametrize(("scale", "are_targets"), [(lambda o: o, True), (lambda o: (o - VALUES) / VALUES, False)])
def test_zeros_are_the_targets_of_outputs_and_not_those_of_their_errors(scale, are_targets):
    view = viewed(lambda o: functional.smooth_l1_loss(scale(o), torch.zeros(ROWS, 1)), units=1)

    assert view.facts.kind == "smooth_l1"
    assert (view.targets is not None) == are_targets
