"""The score is 1 without findings, and nothing that gets worse raises it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debuggers.detectors import Finding
from debuggers.gradients.health import Health, health_of, health_score, recommend

KINDS = [
    "non_finite_gradient",
    "exploding_gradient",
    "vanishing_gradient",
    "zero_gradient",
    "dead_units",
    "large_update",
    "small_update",
    "a_rule_of_the_user",
]
CELLS = 1000


def finding(kind="vanishing_gradient", name="fc1", steps=10, ongoing=True):
    return Finding(
        kind=kind,
        name=name,
        level="warning",
        step=0,
        last_step=steps - 1,
        steps=steps,
        ongoing=ongoing,
        value=1.0,
        threshold=2.0,
        evidence="evidence",
        rule="rule",
    )


FINDINGS = st.builds(finding, st.sampled_from(KINDS), st.just("fc1"), st.integers(1, 2 * CELLS), st.booleans())


def test_without_findings_all_is_well():
    assert health_score([], CELLS) == 1
    assert health_of([], 1.0) is Health.HEALTHY


@given(st.lists(FINDINGS, max_size=8), FINDINGS)
def test_another_finding_never_raises_the_score(findings, more):
    before, after = health_score(findings, CELLS), health_score([*findings, more], CELLS)
    assert 0 <= after <= before <= 1
    assert health_of([*findings, more], after) is not Health.HEALTHY


@given(st.lists(FINDINGS, min_size=1, max_size=8), st.integers(0, CELLS))
def test_a_finding_that_lasts_longer_or_goes_on_never_raises_the_score(findings, more_steps):
    first, *rest = findings
    worse = replace(first, steps=first.steps + more_steps, ongoing=True)
    assert health_score([worse, *rest], CELLS) <= health_score(findings, CELLS)


@pytest.mark.parametrize(
    "kind, steps, ongoing, score",
    [
        ("non_finite_gradient", CELLS, True, 0.0),
        ("non_finite_gradient", 250, True, 1 - 0.5 * 1.5),
        ("vanishing_gradient", 250, True, 1 - 0.8 * 0.5 * 1.5),
        ("vanishing_gradient", 250, False, 1 - 0.8 * 0.25 * 1.5),
        ("small_update", 10, False, 1 - 0.4 * 0.25 * 1.1),
    ],
)
def test_the_score_follows_its_formula(kind, steps, ongoing, score):
    assert health_score([finding(kind, steps=steps, ongoing=ongoing)], CELLS) == pytest.approx(score)


def test_what_is_over_counts_less_the_longer_it_is():
    over = [finding("vanishing_gradient", steps=4, ongoing=False)]
    scores = [health_score(over, 10**9, last_step=last, steps=last + 1) for last in (3, 7, 39, 9999)]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(health_score(over, 10**9))
    assert 0.999 < scores[-1] < 1
    again = [*over, finding("vanishing_gradient", steps=9000, ongoing=False)]
    assert health_score(again, 10**9, last_step=9999, steps=10**4) < 0.85
    assert health_of(over, scores[-1]) is Health.WARNING


def test_one_nan_that_goes_on_is_critical_however_large_the_model():
    findings = [finding("non_finite_gradient", steps=1)]
    assert health_of(findings, health_score(findings, 10**9)) is Health.CRITICAL


def test_what_is_over_is_a_warning():
    findings = [finding("exploding_gradient", steps=1, ongoing=False)]
    assert health_of(findings, health_score(findings, CELLS)) is Health.WARNING


def test_advice_is_one_sentence_a_kind_that_names_its_layers_gravest_first():
    findings = [finding("small_update", "a"), finding("vanishing_gradient", "b"), finding("small_update", "c")]
    first, second = recommend([*findings, finding("a_rule_of_the_user")])
    assert "reach b:" in first
    assert "of a, c," in second


@pytest.mark.parametrize(
    "kind", ["exploding_gradient", "large_update", "non_finite_gradient", "non_finite_loss", "dead_units"]
)
def test_no_larger_learning_rate_is_advised_beside_what_speaks_for_a_smaller_one(kind):
    assert not [text for text in recommend([finding("small_update", "a"), finding(kind, "b")]) if "Raise" in text]


@pytest.mark.parametrize("kind", ["zero_gradient", "vanishing_gradient"])
def test_no_larger_learning_rate_is_advised_for_what_gets_no_gradient(kind):
    advice = recommend([finding("small_update", "a"), finding("small_update", "b"), finding(kind, "a")])
    (text,) = [text for text in advice if "Raise" in text]
    assert "of b, or" in text


def test_nothing_is_healthy_that_was_not_looked_at():
    assert health_of([], 0.99, complete=False) is Health.PARTIAL
    assert health_of([finding()], 0.4, complete=False) is Health.CRITICAL


def test_findings_of_level_info_are_told_and_change_no_health():
    told = replace(finding("loss_spike"), level="info")
    assert not told.is_problem
    assert health_score([told], CELLS) == 1
    assert health_of([told], 1.0) is Health.HEALTHY
    assert health_of([told], 1.0, complete=False) is Health.PARTIAL
    assert recommend([told]) == ()
