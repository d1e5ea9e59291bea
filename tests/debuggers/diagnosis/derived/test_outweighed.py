"""Losses that hold a model back themselves: blurred targets, and terms that cost more than there is to learn."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.derived.outweighed import best_probability
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

LONG = 120
FALLS = np.geomspace(0.5, 0.01, STEPS)
"""A spread over a batch that is taken away."""


def _names(made):
    return [cause.code for cause in diagnose(made)]


@pytest.mark.parametrize(
    ("smoothing", "classes", "terms", "is_one"),
    [
        (0.95, 10, 1, True),
        (0.8, 10, 1, False),  # a twentieth and more of a uniform guess's entropy is left to tell
        (0.95, 100, 1, False),  # the right one is six times as likely as each of the others
        (0.8, 2, 1, True),
        (0.7, 2, 1, False),
        (0.95, 10, 2, False),  # another term may tell classes apart
        (1.0, 10, 1, False),  # of no class is more asked than of another
        (0.1, 10, 1, False),
    ],
)
def test_a_smoothing_that_leaves_nearly_the_same_odds_is_named(smoothing, classes, terms, is_one):
    facts = of_loss(smoothing=smoothing, outputs_shape=(64, classes), terms=terms)
    found = diagnose(evidence(facts=facts, loss=np.linspace(2.31, 2.29, STEPS)))
    assert [cause.code for cause in found] == ["over_regularized"] * is_one
    assert not found or found[0].advice == f"label_smoothing: {smoothing:g} → 0.1."


@pytest.mark.parametrize(
    ("penalty", "classes", "is_one"), [(5.0, 10, True), (2.0, 10, False), (0.1, 10, False), (2.0, 10_000, False)]
)
def test_a_confidence_penalty_that_leaves_nearly_the_same_odds_is_named(penalty, classes, is_one):
    """Of 10,000 words, a penalty of 2 did best (Pereyra et al. 2017). The loss falls below zero with an entropy."""
    facts = of_loss(confidence_penalty=penalty, outputs_shape=(64, classes), terms=2)
    assert _names(evidence(facts=facts, loss=np.linspace(-9.2, -9.6, STEPS))) == ["over_regularized"] * is_one


@pytest.mark.parametrize(("smoothing", "penalty"), [(0.3, 0.0), (0.0, 1.0), (0.2, 2.0)])
def test_the_best_probability_is_where_the_loss_is_least(smoothing, penalty):
    targets = np.full(5, smoothing / 5) + np.r_[1 - smoothing, np.zeros(4)]

    def loss(right):
        p = np.r_[right, np.full(4, (1 - right) / 4)]
        return -(targets * np.log(p)).sum() + penalty * (p * np.log(p)).sum()

    grid = np.linspace(0.21, 0.999, 2000)
    assert best_probability(5, smoothing, penalty) == pytest.approx(grid[np.argmin([loss(p) for p in grid])], abs=1e-3)


def _outweighed(facts, spread=FALLS, last=2.3, first=12.0, **signals):
    """Outputs within 1 of each other, of ten classes, of which the cross entropy is 3.3 at most."""
    values = {
        "outputs/batch_std": spread, "outputs/min": -0.5, "outputs/max": 0.5, "baseline_loss": 2.3, "accuracy": 0.15,
        "targets/top_share_so_far": 0.12, "update_ratio": 0.02,
    } | signals  # fmt: skip
    values = {name: np.broadcast_to(np.asarray(value, np.float64), STEPS) for name, value in values.items()}
    made = evidence(facts=facts, **values)
    course = np.r_[np.geomspace(first, last, 40), np.full(LONG - 40, last)]
    return type(made)(series=dict(made.series) | {"loss": Series(np.arange(LONG), course)}, facts=facts)


BACK = np.r_[np.geomspace(0.5, 0.01, STEPS // 2), np.geomspace(0.01, 0.1, STEPS - STEPS // 2)]


@pytest.mark.parametrize(
    ("fields", "signals", "is_one"),
    [
        ({"penalized": True}, {}, True),
        ({"terms": 2}, {}, True),
        ({}, {}, False),  # there is no other term
        ({"terms": 2}, {"first": 5.5}, False),  # of which the cross entropy may be 3.3
        ({"terms": 2}, {"first": 5.7}, True),
        ({"terms": 2}, {"outputs/max": 9.0}, False),  # or 11.8
        ({"terms": 2}, {"last": 2.15}, False),  # something was gained
        ({"terms": 2}, {"last": 2.2}, True),
        ({"terms": 2}, {"accuracy": 0.4}, False),  # a part of the loss that does not change hides what is learnt
        ({"terms": 2}, {"accuracy": 0.3}, True),
        ({"terms": 2}, {"spread": np.geomspace(0.5, 0.15, STEPS)}, False),  # rows are told apart as they were
        ({"terms": 2}, {"spread": BACK}, False),  # it begins to learn
        ({"terms": 2, "weighted": True}, {}, False),
        ({"terms": 2, "reduction": "sum"}, {}, False),
        ({"terms": 2}, {"update_ratio": 0.001}, False),  # weights are where they were
    ],
)
def test_a_term_that_costs_more_than_there_is_to_learn_takes_the_outputs_spread(fields, signals, is_one):
    facts = of_loss(**{"outputs_shape": (64, 10)} | fields)
    assert ("over_regularized" in _names(_outweighed(facts, **signals))) == is_one


@pytest.mark.parametrize(
    ("first", "explained", "is_one"), [(12.0, 0.2, True), (12.0, 0.3, False), (4.8, 0.2, False), (4.9, 0.2, True)]
)
def test_a_squared_error_is_no_more_than_that_of_outputs_that_fall_where_targets_rise(first, explained, is_one):
    """1.6² of deviations, and nothing of means: what is beyond it is to be more than the 2.3 of a constant output."""
    signals = dict.fromkeys(("outputs/mean", "targets/mean"), 0.0) | {"outputs/std": 0.1, "targets/std": 1.5}
    facts = of_loss(kind="mse", penalized=True, outputs_shape=(64, 1))
    made = _outweighed(facts, first=first, r2=explained, accuracy=np.nan, **signals)
    assert any("added to the comparison" in one for cause in diagnose(made) for one in cause.evidence) == is_one


def test_that_the_whole_fell_says_nothing_against_a_penalty_that_fell():
    facts = of_loss(penalized=True, outputs_shape=(64, 10))
    made = _outweighed(facts, weight_norm=np.geomspace(5, 0.1, STEPS))
    cause = next(one for one in diagnose(made) if one.code == "over_regularized")
    assert not cause.against
    assert any("shrank" in one for one in cause.evidence)


@pytest.mark.parametrize(("accuracy", "is_one"), [(0.9, False), (0.6, True)])
def test_weights_may_shrink_under_a_penalty_while_most_is_told(accuracy, is_one):
    """Of 88 % that a guess does not tell, six tenths are an accuracy of 65 %."""
    facts = of_loss(penalized=True, outputs_shape=(64, 10))
    signals = {"weight_norm": np.geomspace(5, 2.5, STEPS), "decay_cosine": 0.67}
    made = _outweighed(facts, spread=1.0, first=3.7, last=1.7, accuracy=accuracy, **signals)
    assert ("over_regularized" in _names(made)) == is_one


@pytest.mark.parametrize(("penalized", "is_one"), [(False, True), (True, False)])
def test_a_penalty_is_no_part_of_what_a_first_guess_costs(penalized, is_one):
    made = _outweighed(of_loss(penalized=penalized, outputs_shape=(64, 10)))
    assert ("uniform guess" in str([cause.evidence for cause in diagnose(made)])) == is_one
