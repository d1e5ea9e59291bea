"""Causes in losses of pairs, ranks and margins: each on evidence that just has its sign, and that just has not."""

import math

import numpy as np
import pytest
from made_evidence import STANDING, STEPS, evidence, of_loss

from debuggers.diagnosis.rules.diagnose import diagnose

MOVING = {
    "update_ratio": np.full(STEPS, 0.01), "outputs/batch_std": np.full(STEPS, 0.1),
    "inputs/batch_size": np.full(STEPS, 32.0), "baseline_loss": np.ones(STEPS),
}  # fmt: skip


def of_pairs(order, loss=STANDING / 2.3):
    """Pairs of a hinge with a margin of 1, and which share of them is in order."""
    return evidence(facts=of_loss(kind="hinge"), loss=loss, order=np.asarray(order), **MOVING)


def first_cause(made):
    return next((cause.code for cause in diagnose(made)), "")


@pytest.mark.parametrize(("share", "code"), [(0.52, "labels_unrelated"), (0.65, "")])
def test_pairs_that_stay_in_order_by_chance_have_nothing_to_do_with_the_inputs(share, code):
    assert first_cause(of_pairs(np.full(STEPS, share))) == code


@pytest.mark.parametrize(
    ("first", "last", "code"), [(0.3, 0.48, "flipped_loss_sign"), (0.47, 0.48, "labels_unrelated"), (0.3, 0.7, "")]
)
def test_pairs_that_begin_in_the_wrong_order_and_stay_so_are_exchanged(first, last, code):
    order = np.where(np.arange(STEPS) < STEPS // 2, first, last)
    assert first_cause(of_pairs(order)) == code


def test_pairs_that_are_chosen_because_they_are_hard_may_be_in_the_wrong_order():
    assert first_cause(of_pairs(np.where(np.arange(STEPS) < STEPS // 2, 0.0, 0.3))) == ""


def test_an_order_that_training_makes_is_no_sign_of_exchanged_pairs():
    order = np.where(np.arange(STEPS) < STEPS // 2, 0.3, 0.48)
    assert first_cause(of_pairs(order, loss=np.linspace(1.0, 0.4, STEPS))) == ""


@pytest.mark.parametrize(("kind", "negated", "is_one"), [("hinge", True, True), ("hinge", False, False)])
def test_a_hinge_that_is_maximised_has_the_wrong_sign(kind, negated, is_one):
    made = evidence(facts=of_loss(kind=kind, negated=negated), loss=-np.linspace(1, 3, STEPS) if negated else STANDING)
    assert (first_cause(made) == "flipped_loss_sign") == is_one


@pytest.mark.parametrize(
    ("before", "targets_shape", "is_one"), [("sigmoid", (32,), True), ("tanh", (32,), False), ("sigmoid", (), False)]
)
def test_scores_of_one_sign_cannot_reach_targets_of_both(before, targets_shape, is_one):
    facts = of_loss(kind="hinge", before=before, targets_shape=targets_shape, outputs_shape=(32,))
    assert (first_cause(evidence(facts=facts)) == "wrong_output_or_loss") == is_one


@pytest.mark.parametrize(("share", "is_one"), [(0.4, True), (0.0, False)])
def test_a_hinge_takes_targets_of_1_and_minus_1(share, is_one):
    """The loop may tell classes of 0 and 1, and multiply with 1 and -1."""
    facts = of_loss(kind="hinge", targets_shape=(32,), outputs_shape=(32,))
    told = {"targets/min": np.zeros(STEPS), "targets/max": np.ones(STEPS), **MOVING}
    made = evidence(facts=facts, **told, loss=np.linspace(1, 0.3, STEPS), pairs_left_out=np.full(STEPS, share))
    assert (first_cause(made) == "wrong_output_or_loss") == is_one


@pytest.mark.parametrize(("share", "code"), [(0.52, "labels_unrelated"), (0.65, "")])
def test_pairs_of_two_kinds_are_unrelated_if_they_are_never_in_order(share, code):
    moving = {name: values for name, values in MOVING.items() if name != "baseline_loss"}
    made = evidence(facts=of_loss(kind="contrast"), order=np.full(STEPS, share), **moving)
    assert first_cause(made) == code


@pytest.mark.parametrize(("share", "code"), [(0.5, "wrong_output_or_loss"), (0.0, "")])
def test_pairs_that_are_of_no_kind_have_wrong_targets(share, code):
    made = evidence(
        facts=of_loss(kind="contrast"), loss=np.linspace(1, 0.3, STEPS), pairs_left_out=np.full(STEPS, share)
    )
    assert first_cause(made) == code


@pytest.mark.parametrize(
    ("level", "terms", "rows", "code"),
    [
        (1.005, 2, 64, "labels_unrelated"),
        (1.005, 1, 64, ""),  # which is twice what one cross entropy leaves
        (0.97, 2, 64, ""),  # something was found in common
        (1.05, 2, 64, ""),
        (1.005, 2, 4, ""),  # too few rows
    ],
)
def test_a_contrast_whose_loss_stays_at_that_of_equal_scores_has_pairs_that_do_not_belong_together(
    level, terms, rows, code
):
    steps = 120
    moving = {name: np.full(steps, values[0]) for name, values in MOVING.items() if name != "baseline_loss"}
    facts = of_loss(kind="cross_entropy", reduction="mean", factor=0.5, terms=terms, outputs_shape=(rows, rows),
                    targets_shape=(rows,))  # fmt: skip
    made = evidence(facts=facts, loss=level * math.log(rows) * (1 + 0.1 * np.geomspace(1, 1e-4, steps)), **moving)
    assert first_cause(made) == code


@pytest.mark.parametrize(
    ("lowers", "meet_all", "code"),
    [("largest", 1.0, "flipped_loss_sign"), ("each", 1.0, "flipped_loss_sign"), ("each", 0.9, ""), ("", 1.0, "")],
)
def test_a_label_whose_score_is_to_be_below_all_others_has_the_wrong_sign(lowers, meet_all, code):
    facts = of_loss(kind="hinge", lowers=lowers)
    made = evidence(facts=facts, loss=np.geomspace(2, 0.1, STEPS), picked_meet_all=np.full(STEPS, meet_all), **MOVING)
    assert first_cause(made) == code


@pytest.mark.parametrize(
    ("shape", "accuracy", "code"), [((32,), 0.05, "flipped_loss_sign"), ((32,), 0.9, ""), ((), 0.05, "")]
)
def test_scores_that_are_right_less_often_than_by_chance_have_the_negative_of_the_targets(shape, accuracy, code):
    """What a hinge multiplies scores with may be that: its fall does not tell."""
    signals = {"accuracy": accuracy, "targets/classes_so_far": 2.0, "targets/top_share_so_far": 0.5}
    made = evidence(
        facts=of_loss(kind="hinge", targets_shape=shape), loss=np.geomspace(2, 0.1, STEPS),
        **{name: np.full(STEPS, value) for name, value in signals.items()}, **MOVING,
    )  # fmt: skip
    assert first_cause(made) == code
